package channel

import (
	"fmt"
	"sync/atomic"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// Receiver receives the cells of one circuit. Its methods run on the channel's own
// goroutines and must not block.
type Receiver interface {
	// HandleCells receives one or more consecutive RELAY or RELAY_EARLY cells,
	// cell.Len bytes each. They lie in the reader's buffer: the receiver may
	// change them in place and must not keep them.
	HandleCells(cells []byte)
	// HandleBatchEnd is called after the last HandleCells of a batch, which is all
	// that the reader found waiting at once. It is the time to wake goroutines
	// that wait for cells. It may follow HandleDestroy.
	HandleBatchEnd()
	// HandleControl receives any other cell for the circuit except DESTROY, for
	// example CREATED2. The body is valid only during the call; for a fixed-length
	// cell it is the whole payload.
	HandleControl(cmd cell.Command, body []byte)
	// HandleDestroy is called once, as the last call except HandleBatchEnd: the
	// peer sent DESTROY, or the channel closed, or a panic in the circuit's code
	// made it unusable. err says which of these; after a panic it has kind
	// fault.Local.
	HandleDestroy(reason cell.DestroyReason, err error)
	// HandleWritable is called when the queue has space again after Room returned
	// zero.
	HandleWritable()
}

// CircuitEnd is one circuit's end on a channel: its identifier, its queue and its
// receiver.
type CircuitEnd struct {
	ch *Channel
	id uint32

	recv   atomic.Pointer[Receiver] // set once, before the first cell can arrive
	queued atomic.Int32             // cells in q; written under ch.mu

	owns    bool // the queue's account is the circuit's own and is closed with it
	inBatch bool // got cells in this batch; owned by the reader

	// guarded by ch.mu
	q        cellQueue
	ewma     float64
	fresh    bool     // its first cells after it had none queued have priority: see scheduler
	freshAt  uint64   // the scheduler's count, plus one, when it last used that priority
	heapAt   int      // index in the scheduler's heap; -1 when idle
	blocked  bool     // the receiver waits for HandleWritable
	detached bool     // destroyed by us or by the peer: it refuses to send
	from     *Channel // the client's link in whose backlog the queued cells are; may be nil
}

// queueBound is how many cells an edge (client or exit) may queue on one circuit
// before it must wait: two records, enough to keep the writer busy.
const queueBound = 2 * recordCells

// ID returns the circuit identifier on this channel.
func (c *CircuitEnd) ID() uint32 { return c.id }

// Channel returns the channel that the circuit runs on.
func (c *CircuitEnd) Channel() *Channel { return c.ch }

// Account returns the account that counts the memory of the circuit.
func (c *CircuitEnd) Account() *account.Account { return c.q.account }

// SetReceiver sets the receiver of the circuit's cells. The opener of the circuit
// or the accept callback calls it, once.
func (c *CircuitEnd) SetReceiver(r Receiver) { c.recv.Store(&r) }

func (c *CircuitEnd) receiver() Receiver {
	if p := c.recv.Load(); p != nil {
		return *p
	}
	return nil
}

// Queued returns the number of cells that wait to be written.
func (c *CircuitEnd) Queued() int { return int(c.queued.Load()) }

// Room returns how many cells an edge may queue now. If it returns zero, the
// receiver's HandleWritable is called when there is space again.
func (c *CircuitEnd) Room() int {
	if n := queueBound - c.Queued(); n > 0 {
		return n
	}
	c.ch.mu.Lock()
	defer c.ch.mu.Unlock()
	if n := queueBound - c.q.n; n > 0 {
		return n
	}
	c.blocked = true
	return 0
}

// Send copies whole cells into the queue and writes the circuit's identifier into
// each. It does not block and has no bound of its own: edges call Room first, and
// a relay watches Queued. Another goroutine writes the cells; a caller without
// locks should use Enqueue, which is faster.
func (c *CircuitEnd) Send(cells []byte) error {
	claimed, err := c.EnqueueSoon(cells)
	if claimed {
		c.ch.handOver()
	}
	return err
}

// EnqueueSoon is Enqueue, except that it claims nothing while the channel's reader
// is handing out cells: the reader then writes the cells at the end of its batch,
// together with others.
func (c *CircuitEnd) EnqueueSoon(cells []byte) (claimed bool, err error) {
	return c.enqueue(cells, true)
}

// Enqueue is Send, except that it lets the caller write if no other goroutine is
// writing. If claimed is true, the caller must call the channel's Flush, or
// FlushLater of another channel with this one, at a time when it holds no lock
// that the circuit's receiver takes.
func (c *CircuitEnd) Enqueue(cells []byte) (claimed bool, err error) {
	return c.enqueue(cells, false)
}

func (c *CircuitEnd) enqueue(cells []byte, soon bool) (claimed bool, err error) {
	for i := 0; i < len(cells); i += cell.Len {
		cell.SetCircID(cells[i:], c.id)
	}
	ch := c.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if c.detached || ch.closed {
		return false, errDetached()
	}
	heap := ch.sched.heap
	c.q.push(cells, len(heap) > 1 || len(heap) == 1 && heap[0] != c)
	c.queuedLocked(len(cells) / cell.Len)
	if c.heapAt < 0 {
		ch.sched.add(c)
	}
	if ch.turn != turnNobody {
		return false, nil
	}
	if ch.wire == nil || soon && ch.batch {
		ch.wakeLocked()
		return false, nil
	}
	ch.turn = turnCaller
	return true, nil
}

// SendControl sends one cell with the given command and payload, such as CREATE2;
// the payload is padded with zeros. The caller must hold no lock that the
// circuit's receiver takes.
func (c *CircuitEnd) SendControl(cmd cell.Command, payload []byte) error {
	var b [cell.Len]byte
	cell.PutHeader(b[:], c.id, cmd)
	if copy(cell.Payload(b[:])[:], payload) < len(payload) {
		return fault.New(fault.Local, "send %v: a payload of %d bytes is too long", cmd, len(payload))
	}
	claimed, err := c.EnqueueSoon(b[:])
	if claimed {
		c.ch.Flush()
	}
	return err
}

// SendLong sends a variable-length cell before all queued cells: one that opens a
// circuit, or the answer to one.
func (c *CircuitEnd) SendLong(cmd cell.Command, body []byte) error {
	if len(body) > cell.MaxLong {
		return fault.New(fault.Local, "send %v: a body of %d bytes is too long", cmd, len(body))
	}
	// After DESTROY, nobody would close what the cell opens.
	err := c.ch.queueUrgent(c, cell.AppendVar(nil, c.id, cmd, body))
	if fault.Is(err, fault.Resource) {
		c.ch.Close(err)
	}
	return err
}

func errDetached() error {
	return fault.New(fault.Closed, "send on circuit: the circuit is closed")
}

// Destroy sends DESTROY with the reason, drops the queued cells, and forgets the
// circuit. It does not call the receiver. Further calls do nothing. A client's link that looks like
// C tor's may keep the DESTROY back for a while: see heldEnds.
func (c *CircuitEnd) Destroy(reason cell.DestroyReason) { c.destroy(reason) }

// destroy is Destroy. It reports whether the circuit was still on the channel.
func (c *CircuitEnd) destroy(reason cell.DestroyReason) bool {
	if !c.detach() {
		return false
	}
	c.ch.sendDestroy(heldEnd{c.id, reason})
	return true
}

// DestroyedError is in the error of a circuit that the relay at the other end of the link
// has closed.
type DestroyedError struct{ Reason cell.DestroyReason }

func (e *DestroyedError) Error() string {
	return fmt.Sprintf("the relay closed the circuit: %v", e.Reason)
}

// fail closes the circuit after a panic in its receiver's code.
func (c *CircuitEnd) fail(cause error) {
	c.end(cell.DestroyInternal, cause)
}

// end destroys the circuit and tells its receiver. Open sets that under the lock that destroy
// takes, so it is there afterwards.
func (c *CircuitEnd) end(reason cell.DestroyReason, cause error) {
	if !c.destroy(reason) {
		return
	}
	if r := c.receiver(); r != nil {
		r.HandleDestroy(reason, cause)
	}
}

// detach removes the circuit from the channel. It reports whether the circuit was
// there.
func (c *CircuitEnd) detach() bool {
	ch := c.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if c.detached {
		return false
	}
	c.detached = true
	if !ch.closed { // a closed channel writes no more, and a panic may have left its queues inconsistent
		ch.sched.remove(c)
	}
	n := c.q.n
	if n > 0 && ch.ends != nil { // C tor's scheduler runs for these cells, though they are gone
		ch.ends.cell = ch.cfg.Now()
	}
	c.q.clear()
	c.leftLocked(n)
	delete(ch.circs, c.id)
	if len(ch.circs) == 0 {
		ch.restLocked(ch.cfg.Now())
	}
	if c.owns {
		c.q.account.Close()
	} else {
		c.q.account.Release(circCost)
	}
	return true
}
