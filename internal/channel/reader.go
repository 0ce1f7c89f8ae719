package channel

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// readBuffer holds one TLS record's 16,384 bytes and the incomplete cell from the end
// of the record before it.
const readBuffer = 16384 + cell.Len

// maxBatch is how many bytes the reader hands out before it writes the resulting
// cells, even if more input waits: the cells of four records.
const maxBatch = 4 * recordCells * cell.Len

// batchLinks is for how many channels of a batch the reader may hand out maxBatch each before it writes, so that cells which
// spread over many links do not leave by ones and twos: with ten links whose cells go to a hundred, a relay moves a quarter
// more for the same time of a processor. More than four links made no difference, and a cell waits for the whole batch.
const batchLinks = 4

// readTurn is how many bytes a reader takes from a socket that never runs empty before the readers of other links have their
// turn. Go's scheduler would let it go on for 10 ms, which is as much as the kernel holds for some links and not for others.
const readTurn = 16 * maxBatch

// batchShares bounds how much the reader hands out before circuits pass on what they
// got: maxBatch for each circuit of the batch, for at most this many circuits. So an
// exit's writes for one circuit do not become smaller because other circuits are
// busy.
const batchShares = 4

// maxVariable bounds the body of a variable-length cell after the handshake. The
// protocol has two kinds of them there: the post-quantum cells, which have a bound of
// their own, and padding, which is dropped.
const maxVariable = 8192

// yieldAfter is how many circuits a peer may ask for before the reader lets other
// goroutines run: each costs as much as dozens of cells, and Go's scheduler alone
// would let a flood continue for 10 ms while other channels' cells wait.
const yieldAfter = 4

// maxBody returns how long the body of a variable-length cell may be.
func maxBody(cmd cell.Command) int {
	if cell.FormOf(cmd) != nil || cmd.IsCreated() {
		return cell.MaxLong
	}
	return maxVariable
}

// readLoop reads records and hands out their cells until the link fails.
func (ch *Channel) readLoop() {
	err := ch.read()
	if errors.Is(err, io.EOF) {
		ch.answerEnd()
		err = fault.New(fault.Network, "channel: the peer closed the connection: %w", err)
	} else if fault.KindOf(err) == fault.Unknown {
		err = fault.New(fault.Network, "channel: read: %w", hideAddr(err))
	}
	ch.Close(err)
}

// answerEnd sends a last record if the link is to look like C tor's. OpenSSL answers the end of a connection by an alert of
// this length.
func (ch *Channel) answerEnd() {
	if c, ok := ch.link.Conn.(interface{ CloseWrite() error }); ok && ch.link.Common {
		_ = c.CloseWrite() // an error says that the peer is gone
	}
}

// readBuffers are the readers' that have something to read.
var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

func (ch *Channel) read() error {
	if n := len(ch.link.Leftover); n > readBuffer {
		return fault.New(fault.Protocol, "channel: %d bytes came directly after the handshake", n)
	}
	for {
		ch.holdBack()
		err := ch.readBusy()
		if err == errQuiet {
			err = ch.wire.await()
		}
		if err != nil {
			return err
		}
	}
}

// readBusy reads until the peer pauses after a whole cell. So the reader of an idle channel
// holds no buffer, and waits on a small stack. Without a socket, it returns at the end only.
func (ch *Channel) readBusy() error {
	pooled := readBuffers.Get().(*[readBuffer]byte)
	defer readBuffers.Put(pooled)
	counted := false // on the link's account: a peer that stops within a cell makes us keep the buffer
	defer func() {
		if counted {
			ch.account.Release(readBuffer)
		}
	}()
	buf := pooled[:]
	n := copy(buf, ch.link.Leftover)
	ch.link.Leftover = nil
	for {
		if !ch.batch && n > 0 {
			ch.beginBatch()
		}
		used, err := ch.dispatch(buf[:n])
		// Cells that arrive in small records leave in large ones, but no cell waits
		// for input that has not arrived: see drained.
		switch full := ch.pending >= maxBatch*max(1, min(len(ch.claimed), batchLinks)); {
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
		if ch.pending == 0 {
			ch.holdBack()
			if ch.taken >= readTurn {
				ch.taken = 0
				runtime.Gosched()
			}
		}
		if ch.wire == nil {
			ch.ack()
		} else {
			ch.wire.parts = n == 0
		}
		if n > 0 && !counted {
			counted = true
			ch.account.Reserve(readBuffer)
		}
		k, err := ch.conn.Read(buf[n:])
		if k == 0 && err != nil {
			if err != errQuiet {
				ch.endBatch()
			}
			return err
		}
		if ch.wire != nil {
			ch.wire.barren = 0
		}
		ch.pending += k
		ch.taken += k
		if ch.tail += k; ch.tail >= recordCells*cell.Len {
			ch.tail = 0
		}
		n += k
		ch.lastIn.Store(ch.cfg.Now().UnixNano())
		ch.in.Add(uint64(k))
		if s := ch.cfg.Stats; s != nil {
			s.BytesIn.Add(uint64(k))
		}
	}
}

// beginBatch makes the reader the writer of all that is queued on ch until endBatch,
// unless another goroutine is writing already.
func (ch *Channel) beginBatch() {
	ch.mu.Lock()
	ch.batch = true
	ch.mu.Unlock()
}

// endBatch lets circuits pass on what they got, and then writes the cells that they
// queued. It reports whether it wrote on this channel.
func (ch *Channel) endBatch() (wrote bool) {
	for ch.ended < len(ch.touched) { // loops again only after a panic
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

// abandon closes the circuit whose code panicked on the reader. It returns false if
// the channel's own code panicked.
func (ch *Channel) abandon(cause error) bool {
	c := ch.busy
	if c == nil {
		return false
	}
	ch.busy = nil
	c.fail(cause)
	return true
}

// writeBatch writes the cells that circuits queued during the batch, on other
// channels and on this one. It reports whether it wrote on this one.
func (ch *Channel) writeBatch() (wrote bool) {
	ch.mu.Lock()
	if ch.lets {
		ch.lets = false
		ch.mu.Unlock()
		runtime.Gosched()
		ch.mu.Lock()
	}
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
	// C tor uses Nagle's algorithm: its next bytes, for example a SENDME or the last
	// cells before it switches to another leg, wait until we acknowledge its earlier
	// bytes. Our writes carry the acknowledgement. During a bulk transfer the kernel
	// acknowledges by itself, but not reliably. A relay has too many links to make
	// this call for each.
	client := ch.cfg.Accept == nil
	if !wrote && (client || ch.tail < recordCells/2*cell.Len) {
		ch.ack()
	}
	ch.tail, ch.taken = 0, 0
}

// dispatch handles every whole cell in b and returns how many bytes they took. If a
// circuit's code panics, dispatch closes that circuit and continues after the cells
// that the circuit got. If the channel's own code panics, dispatch returns an error.
func (ch *Channel) dispatch(b []byte) (used int, err error) {
	ch.at = 0
	for again := true; again; {
		again, err = ch.handOut(b)
	}
	return ch.at, err
}

// handOut is dispatch up to the first panic in a circuit's code; after such a panic
// again is true.
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
			ch.variable(cell.CircID(c), cmd, c[cell.HeaderLen+2:cell.HeaderLen+2+size])
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

// runLen returns the length of the run of RELAY and RELAY_EARLY cells of one circuit
// at the front of b, which begins with a whole cell.
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

func (ch *Channel) lookup(id uint32) *CircuitEnd {
	ch.mu.Lock()
	c := ch.circs[id]
	ch.mu.Unlock()
	return c
}

// relayCells gives a run of relay cells to its circuit. Cells for an unknown circuit
// are dropped: they were sent before our DESTROY arrived.
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
	case cell.CmdPadding, cell.CmdNetinfo: // as C tor: a second NETINFO says nothing
		return nil
	case cell.CmdPaddingNegotiate:
		ch.pad.negotiate(p)
		return nil
	}
	if cmd == cell.CmdCreate || cell.FormOf(cmd) != nil {
		ch.accept(id, cmd, p[:])
	} else {
		ch.deliver(id, cmd, p[:])
	}
	return nil
}

// deliver gives a cell that is not a relay cell to its circuit. Cells for unknown
// circuits are ignored.
func (ch *Channel) deliver(id uint32, cmd cell.Command, body []byte) {
	c := ch.lookup(id)
	if c == nil {
		return
	}
	r := c.receiver()
	ch.busy = c
	if cmd == cell.CmdDestroy {
		if c.detach() && r != nil {
			reason := cell.DestroyReason(body[0])
			r.HandleDestroy(reason, fault.Wrap(fault.Network, &DestroyedError{reason}))
		}
	} else if r != nil {
		r.HandleControl(cmd, body)
	}
	ch.busy = nil
}

// accept opens a circuit that the peer asked for.
func (ch *Channel) accept(id uint32, cmd cell.Command, body []byte) {
	// As in C tor: a peer's mistake about one circuit must not end those of others. Only
	// the reader adds a peer's circuits.
	if id == 0 || ch.lookup(id) != nil {
		return
	}
	reason := cell.DestroyResourceLimit
	var c *CircuitEnd
	if peerHigh := id>>31 == 1; ch.cfg.Accept == nil || ch.link.AsClient || peerHigh == ch.link.Initiator {
		reason = cell.DestroyProtocol
	} else {
		c = ch.admit(id)
	}
	if c == nil {
		var b [cell.Len]byte
		cell.PutHeader(b[:], id, cell.CmdDestroy)
		cell.Payload(b[:])[0] = byte(reason)
		ch.sendUrgent(b[:])
		return
	}
	if ch.link.PeerAuthenticated { // a relay extends somebody's circuit
		ch.NoteMultiHop()
	}
	ch.asked++
	ch.busy = c
	ch.cfg.Accept(c, cmd, body)
	ch.busy = nil
}

// admit adds a circuit that the peer asked for. It returns nil if the circuit is
// refused.
func (ch *Channel) admit(id uint32) *CircuitEnd {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.roomLocked() != nil {
		return nil
	}
	return ch.addLocked(id, nil)
}

// variable handles a cell of variable length; unknown ones are dropped (tor-spec,
// "cell format").
func (ch *Channel) variable(id uint32, cmd cell.Command, body []byte) {
	switch {
	case cell.FormOf(cmd) != nil:
		ch.accept(id, cmd, body)
	case cmd.IsCreated():
		ch.deliver(id, cmd, body)
	}
}
