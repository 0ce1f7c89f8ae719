package channel

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// readBuffer holds one TLS record's 16,384 bytes beside the unfinished cell
// of the one before.
const readBuffer = 16384 + cell.Len

// maxBatch is how many bytes the reader hands out before it writes what came
// of them, though more may wait: the cells of four records.
const maxBatch = 4 * recordCells * cell.Len

// batchShares says how much the reader may hand out before circuits hand on what
// they got: maxBatch for each circuit of the batch, up to so many. What an exit
// writes for one circuit does not become smaller because others are busy.
const batchShares = 4

// maxVariable bounds the body of a variable-length cell after the handshake. Those
// that the protocol knows there are the post-quantum ones, which have their own
// bound, and padding, which is dropped.
const maxVariable = 8192

// yieldAfter is how many circuits a peer may ask for before the reader lets other
// goroutines run: each costs as much as dozens of cells, and the scheduler by
// itself would let a flood go on for 10 ms while others' cells wait.
const yieldAfter = 4

// maxBody returns how long the body of a variable-length cell may be.
func maxBody(cmd cell.Command) int {
	if cmd == cell.CmdLongCreate2 || cmd == cell.CmdLongCreated2 {
		return cell.MaxLong
	}
	return maxVariable
}

// readLoop reads records and hands out their cells until the link fails.
func (ch *Channel) readLoop() {
	err := ch.read()
	if errors.Is(err, io.EOF) {
		err = fault.New(fault.Network, "channel: the peer closed the connection: %w", err)
	} else if fault.KindOf(err) == fault.Unknown {
		err = fault.New(fault.Network, "channel: read: %w", err)
	}
	ch.Close(err)
}

func (ch *Channel) read() error {
	buf := make([]byte, readBuffer)
	n := copy(buf, ch.link.Leftover)
	if n < len(ch.link.Leftover) {
		return fault.New(fault.Protocol, "channel: %d bytes follow the handshake at once", len(ch.link.Leftover))
	}
	ch.link.Leftover = nil
	for {
		if !ch.batch && n > 0 {
			ch.beginBatch()
		}
		used, err := ch.dispatch(buf[:n])
		// What came in small records goes out in large ones, as far as no cell
		// waits for what is yet to come: see drained.
		switch full := ch.pending >= maxBatch; {
		case err != nil || ch.wire == nil || full && ch.handed+ch.pending >= maxBatch*min(len(ch.touched), batchShares):
			ch.endBatch()
		case full:
			ch.handed += ch.pending
			ch.writeBatch()
		}
		if err != nil {
			return err
		}
		n = copy(buf, buf[used:n])
		if ch.wire == nil {
			ch.ack()
		}
		k, err := ch.conn.Read(buf[n:])
		if k == 0 && err != nil {
			ch.endBatch()
			return err
		}
		ch.pending += k
		if ch.tail += k; ch.tail >= recordCells*cell.Len {
			ch.tail = 0
		}
		n += k
		ch.lastIn.Store(ch.cfg.Now().UnixNano())
		if s := ch.cfg.Stats; s != nil {
			s.BytesIn.Add(uint64(k))
		}
	}
}

// beginBatch says that until endBatch what is queued on ch is the reader's to
// write, unless somebody is at it already.
func (ch *Channel) beginBatch() {
	ch.mu.Lock()
	ch.batch = true
	ch.mu.Unlock()
}

// endBatch lets circuits hand on what they got, and then writes what they have to
// say to it. It reports whether that was something on this channel.
func (ch *Channel) endBatch() (wrote bool) {
	for ch.ended < len(ch.touched) { // again only after a panic
		ch.endCircuits()
	}
	ch.touched, ch.ended = ch.touched[:0], 0
	ch.handed = 0
	return ch.writeBatch()
}

func (ch *Channel) endCircuits() {
	defer panics.Recover(ch.cfg.Log, func(cause error) {
		if !ch.abandon(cause) {
			ch.Close(cause)
		}
	})
	for ch.ended < len(ch.touched) {
		c := ch.touched[ch.ended]
		ch.touched[ch.ended] = nil
		ch.ended++
		c.inBatch = false
		ch.busy = c
		c.receiver().HandleBatchEnd()
		ch.busy = nil
	}
}

// abandon closes the circuit whose code has panicked on the reader; it reports
// false when it was the channel's own.
func (ch *Channel) abandon(cause error) bool {
	c := ch.busy
	if c == nil {
		return false
	}
	ch.busy = nil
	c.fail(cause)
	return true
}

// writeBatch writes what circuits have to say to the batch, on other channels,
// and on this one, which it reports.
func (ch *Channel) writeBatch() (wrote bool) {
	ch.mu.Lock()
	ch.batch = false
	mine := ch.turn == turnReader
	if mine {
		ch.turn = turnCaller
	}
	ch.mu.Unlock()
	if mine {
		ch.Flush()
	}
	for i, other := range ch.claimed {
		other.Flush()
		ch.claimed[i] = nil
	}
	ch.claimed = ch.claimed[:0]
	ch.pending = 0
	return mine
}

// drained runs on the reader when the socket has nothing more to read.
func (ch *Channel) drained() {
	if len(ch.touched) > 0 && !ch.batch {
		ch.beginBatch()
	}
	wrote := ch.batch && ch.endBatch()
	// C tor leaves Nagle's algorithm on: what it sends next, a SENDME say, or the
	// last cells before it turns to another leg, waits for the acknowledgement of
	// what it sent before. What is written carries that; in the midst of bulk the
	// kernel acknowledges by itself, though not reliably. A relay has too many
	// links to be sure.
	client := ch.cfg.Accept == nil
	if !wrote && (client || ch.tail < recordCells/2*cell.Len) {
		ch.ack()
	}
	ch.tail = 0
}

// dispatch handles every whole cell in b and returns how many bytes they took.
// When a circuit's code panics, that circuit is closed, and what follows the cells
// that it was given is handled; when the channel's own does, that is an error.
func (ch *Channel) dispatch(b []byte) (used int, err error) {
	ch.at = 0
	for again := true; again; {
		again, err = ch.handOut(b)
	}
	return ch.at, err
}

// handOut is dispatch until a panic in a circuit's code, which again tells of.
func (ch *Channel) handOut(b []byte) (again bool, err error) {
	defer panics.Recover(ch.cfg.Log, func(cause error) {
		err = cause
		if ch.abandon(cause) {
			again, err = true, nil
		}
	})
	cells := uint64(0)
	for len(b)-ch.at >= cell.HeaderLen {
		c := b[ch.at:]
		cmd := cell.Cmd(c)
		if cmd.IsVariable() {
			if len(c) < cell.HeaderLen+2 {
				break
			}
			size := int(binary.BigEndian.Uint16(c[cell.HeaderLen:]))
			if size > maxBody(cmd) {
				return false, fault.New(fault.Protocol, "channel: %v cell of %d bytes", cmd, size)
			}
			if len(c) < cell.HeaderLen+2+size {
				break
			}
			ch.at += cell.HeaderLen + 2 + size
			if err := ch.variable(cell.CircID(c), cmd, c[cell.HeaderLen+2:cell.HeaderLen+2+size]); err != nil {
				return false, err
			}
			cells++
			continue
		}
		if len(c) < cell.Len {
			break
		}
		size := cell.Len
		if cmd == cell.CmdRelay || cmd == cell.CmdRelayEarly {
			size = runLen(c)
			ch.at += size
			ch.relayCells(c[:size])
		} else {
			ch.at += size
			if err := ch.control(c[:size], cmd); err != nil {
				return false, err
			}
		}
		cells += uint64(size / cell.Len)
		if ch.asked >= yieldAfter {
			ch.asked = 0
			runtime.Gosched()
		}
	}
	if s := ch.cfg.Stats; s != nil && cells > 0 {
		s.CellsIn.Add(cells)
	}
	return false, nil
}

// runLen returns the length of the run of RELAY and RELAY_EARLY cells of one
// circuit at the front of b, which begins with a whole one.
func runLen(b []byte) int {
	id := cell.CircID(b)
	n := cell.Len
	for len(b)-n >= cell.Len && cell.CircID(b[n:]) == id {
		if cmd := cell.Cmd(b[n:]); cmd != cell.CmdRelay && cmd != cell.CmdRelayEarly {
			break
		}
		n += cell.Len
	}
	return n
}

func (ch *Channel) lookup(id uint32) *Circ {
	ch.mu.Lock()
	c := ch.circs[id]
	ch.mu.Unlock()
	return c
}

// relayCells gives a run of relay cells to its circuit. Cells for an unknown
// circuit are dropped: they cross with our DESTROY.
func (ch *Channel) relayCells(cells []byte) {
	if c := ch.lookup(cell.CircID(cells)); c != nil {
		if r := c.receiver(); r != nil {
			ch.busy = c
			r.HandleCells(cells)
			ch.busy = nil
			if !c.inBatch {
				c.inBatch = true
				ch.touched = append(ch.touched, c)
			}
		}
	}
}

// control handles a fixed cell that is not a relay cell.
func (ch *Channel) control(b []byte, cmd cell.Command) error {
	id, p := cell.CircID(b), cell.Payload(b)
	switch cmd {
	case cell.CmdPadding:
		return nil
	case cell.CmdPaddingNegotiate:
		return ch.pad.negotiate(p)
	case cell.CmdCreate, cell.CmdCreateFast, cell.CmdCreate2:
		return ch.accept(id, cmd, p[:])
	case cell.CmdNetinfo:
		return fault.New(fault.Protocol, "channel: NETINFO after the handshake")
	}
	c := ch.lookup(id)
	if c == nil {
		return nil // unknown circuit, or a command to be ignored
	}
	r := c.receiver()
	ch.busy = c
	if cmd == cell.CmdDestroy {
		if c.detach() && r != nil {
			reason := cell.DestroyReason(p[0])
			r.HandleDestroy(reason, fault.New(fault.Network, "the relay closed the circuit: %v", reason))
		}
	} else if r != nil {
		r.HandleControl(cmd, p[:])
	}
	ch.busy = nil
	return nil
}

// accept opens a circuit that the peer asked for.
func (ch *Channel) accept(id uint32, cmd cell.Command, body []byte) error {
	if peerHigh := id>>31 == 1; id == 0 || peerHigh == ch.link.Initiator {
		return fault.New(fault.Protocol, "channel: %v with a circuit identifier of ours", cmd)
	}
	c, err := ch.admit(id, cmd)
	if err != nil {
		return err
	}
	if c == nil {
		var b [cell.Len]byte
		cell.PutHeader(b[:], id, cell.CmdDestroy)
		cell.Payload(b[:])[0] = byte(cell.DestroyResourceLimit)
		ch.sendUrgent(b[:])
		return nil
	}
	ch.asked++
	ch.busy = c
	ch.cfg.Accept(c, cmd, body)
	ch.busy = nil
	return nil
}

// admit adds a circuit that the peer asked for; nil: it is refused.
func (ch *Channel) admit(id uint32, cmd cell.Command) (*Circ, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.circs[id] != nil {
		return nil, fault.New(fault.Protocol, "channel: %v with an identifier that is in use", cmd)
	}
	if ch.cfg.Accept == nil || ch.roomLocked() != nil {
		return nil, nil
	}
	return ch.addLocked(id, nil), nil
}

// variable handles a cell of variable length; those that nobody knows are
// dropped (tor-spec, "cell format").
func (ch *Channel) variable(id uint32, cmd cell.Command, body []byte) error {
	switch cmd {
	case cell.CmdLongCreate2:
		return ch.accept(id, cmd, body)
	case cell.CmdLongCreated2:
		if c := ch.lookup(id); c != nil {
			if r := c.receiver(); r != nil {
				ch.busy = c
				r.HandleControl(cmd, body)
				ch.busy = nil
			}
		}
	}
	return nil
}
