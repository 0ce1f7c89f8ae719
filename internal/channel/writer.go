package channel

import (
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// writeTimeout is how long one record may wait for a peer that does not read.
const writeTimeout = 2 * time.Minute

// turn says which goroutine writes to a channel. Only the goroutine that has the turn
// touches the connection's sending half.
type turn uint8

const (
	turnNobody turn = iota // nothing waits
	turnCaller             // the goroutine that queued cells on the idle channel: see Enqueue
	turnReader             // the reader, at the end of its batch
	turnLoop               // the writer's goroutine
)

// inlineRecords is how many records a caller writes before the writer's goroutine
// takes over, and how many go to the kernel together.
const inlineRecords = 4

// wakeLocked gives the turn, if it is free, to the reader if that will write soon
// anyway, or else to the writer's goroutine. The caller holds mu.
func (ch *Channel) wakeLocked() {
	switch {
	case ch.turn != turnNobody:
	case ch.batch && ch.wire != nil:
		ch.turn = turnReader
	default:
		ch.loopLocked()
	}
}

// loopLocked gives the turn to a writer's goroutine. An idle channel has none: its memory
// would be a tenth of the link's. The caller holds mu.
func (ch *Channel) loopLocked() {
	ch.turn = turnLoop
	if !ch.closed {
		ch.startLocked(true)
	}
}

// handOver gives the caller's turn to the writer's goroutine.
func (ch *Channel) handOver() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.loopLocked()
}

// Flush writes queued cells for the caller that got the turn from Enqueue. It does
// not wait for the peer; the writer's goroutine does that. It may run on any
// goroutine, so a panic closes the channel, which would otherwise never get its turn
// back, and does not reach the caller.
func (ch *Channel) Flush() {
	defer panics.Recover(ch.cfg.Log, ch.Close)
	for i := range inlineRecords {
		more, err := ch.writeRecord(i == inlineRecords-1)
		if err != nil {
			ch.Close(fault.New(fault.Network, "channel: write: %w", hideAddr(err)))
			return
		}
		if !more {
			return
		}
		if ch.wire.full() {
			break
		}
	}
	ch.handOver()
}

// FlushLater makes ch's reader flush other at the end of its batch. Only that
// reader's goroutine may call it.
func (ch *Channel) FlushLater(other *Channel) { ch.claimed = append(ch.claimed, other) }

// LetRun makes ch's reader let other goroutines run before it writes what its batch has
// queued: one of them is about to queue more, which then needs no record of its own.
func (ch *Channel) LetRun() {
	ch.mu.Lock()
	ch.lets = true
	ch.mu.Unlock()
}

// writeLoop has the turn, and writes until nothing waits or the channel closes.
func (ch *Channel) writeLoop() {
	if err := ch.write(); err != nil {
		ch.Close(fault.New(fault.Network, "channel: write: %w", hideAddr(err)))
	}
}

func (ch *Channel) write() error {
	for i, more := 1, true; more; i++ {
		if ch.wire != nil && ch.wire.full() {
			if err := ch.wire.drain(); err != nil {
				return err
			}
		}
		var err error
		if more, err = ch.writeRecord(i%inlineRecords == 0); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord takes up to one record of cells, in the scheduler's order, and writes
// them; see writeCut for links that look like C tor's. The wire keeps the record while more records follow, unless last is set. If
// nothing waits, writeRecord gives up the turn and returns false.
func (ch *Channel) writeRecord(last bool) (more bool, err error) {
	now := ch.cfg.Now()
	// To set a deadline updates a timer, so renew it only when half of it has passed.
	if ch.deadline.Sub(now) < writeTimeout/2 {
		ch.deadline = now.Add(writeTimeout)
		if err := ch.conn.SetWriteDeadline(ch.deadline); err != nil {
			return false, err
		}
	}
	record := ch.openRecord()
	n, whole, of, follow, more := ch.pull(record, now)
	if !more {
		slabPool.Put(record)
		return false, nil
	}
	if n == 0 && whole == nil && record.w == 0 {
		slabPool.Put(record)
		return true, ch.wire.push() // only the wire still has bytes
	}
	for i, c := range ch.writable {
		if r := c.receiver(); r != nil {
			r.HandleWritable()
		}
		ch.writable[i] = nil
	}
	ch.lastOut.Store(now.UnixNano())
	hold := follow && !last
	if ch.common {
		record.w += n
		ch.countOut(n)
		return true, ch.writeCut(record, follow, hold)
	}
	if ch.wire != nil {
		ch.wire.gather(hold)
	}
	out := record.b[:n]
	if whole != nil {
		out = whole.b[:]
	}
	_, err = ch.conn.Write(out)
	ch.countOut(len(out))
	if s := ch.cfg.Stats; s != nil {
		s.RecordsOut.Add(1)
	}
	if whole != nil {
		putSlab(whole, of)
	}
	slabPool.Put(record)
	return true, err
}

// pull takes up to one record of cells: n bytes of them in record, behind what it has, or a whole
// slab, which account of counts. follow says that more records follow at once. If
// nothing waits, pull gives up the turn and more is false.
func (ch *Channel) pull(record *slab, now time.Time) (n int, whole *slab, of *account.Account, follow, more bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed || ch.silent || !ch.hasQueuedLocked() && record.w == 0 && (ch.wire == nil || !ch.wire.hasKept()) {
		ch.turn, ch.idle = turnNobody, now
		return 0, nil, nil, false, false
	}
	space := record.b[record.w:]
	if !ch.common {
		space = space[:min(len(space), ch.spaceLocked(now))]
	}
	n, whole, of, ch.writable = ch.fillLocked(space, now, ch.writable[:0])
	return n, whole, of, ch.hasQueuedLocked(), true
}

func (ch *Channel) hasQueuedLocked() bool {
	return len(ch.urgent) > 0 || ch.sched.min() != nil || ch.ends.waitLocked()
}

// fillLocked takes cells for one record: first urgent ones, then one burst of each circuit
// in the scheduler's order. If only one circuit has cells and its first slab is full,
// fill returns the whole slab and its account. Circuits that wait for space and have
// some again are appended to writable. The caller holds mu.
func (ch *Channel) fillLocked(record []byte, now time.Time, writable []*CircuitEnd) (int, *slab, *account.Account, []*CircuitEnd) {
	n := 0
	if len(ch.urgent) > 0 {
		n = ch.takeUrgentLocked(record)
	}
	ch.sched.rescale(now, ch.circs)
	weight := ch.sched.weight(now)
	if c := ch.sched.min(); c != nil && n == 0 && len(ch.sched.heap) == 1 && !ch.common && len(record) == recordCells*cell.Len {
		if s := c.q.popFull(); s != nil {
			return 0, s, c.q.account, ch.countTakenLocked(c, recordCells, weight, writable)
		}
	}
	k, writable := ch.fillEndsLocked(record[n:], now, weight, writable)
	n += k
	// Urgent cells of variable length may leave less than one cell of space at the
	// end.
	for len(record)-n >= cell.Len {
		c := ch.sched.min()
		if c == nil {
			break
		}
		k := c.q.pop(record[n:min(len(record), n+burst*cell.Len)])
		n += k
		ch.ends.passedLocked(now)
		writable = ch.countTakenLocked(c, k/cell.Len, weight, writable)
	}
	return n, nil, nil, writable
}

// takeUrgentLocked takes urgent cells, and gives memory back when little of it is in use: a peer
// that reads most of what it caused, and no more, must not keep it. The caller holds mu.
func (ch *Channel) takeUrgentLocked(record []byte) int {
	had := ch.urgentCostLocked()
	n := copy(record, ch.urgent)
	ch.urgent = ch.urgent[:copy(ch.urgent, ch.urgent[n:])]
	if had > 64*cell.Len && len(ch.urgent) < had/8 {
		ch.urgent = append([]byte(nil), ch.urgent...)
	}
	ch.account.Release(had - ch.urgentCostLocked())
	return n
}

// urgentCostLocked is the memory of urgent cells that the account counts, in bytes. What stays for
// the next ones while there are none is small.
func (ch *Channel) urgentCostLocked() int {
	if len(ch.urgent) == 0 {
		return 0
	}
	return cap(ch.urgent)
}

// countTakenLocked accounts for n cells taken from c.
func (ch *Channel) countTakenLocked(c *CircuitEnd, n int, weight float64, writable []*CircuitEnd) []*CircuitEnd {
	ch.sched.took(c, float64(n)*weight, c.q.n > 0)
	c.leftLocked(n)
	if c.blocked && c.q.n <= queueBound/2 {
		c.blocked = false
		writable = append(writable, c)
	}
	return writable
}
