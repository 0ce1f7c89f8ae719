package circuit

import (
	"sync/atomic"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
)

// Carried is what relay cells of a client's circuit have carried while Env.Count was on, in bytes (control-spec, CIRC_BW).
type Carried struct {
	Read, Written                   uint64     // whole payloads of cells
	DeliveredRead, DeliveredWritten uint64     // of them, bodies of messages that were wanted
	OverheadRead, OverheadWritten   uint64     // and what stood around those bodies
	Flow                            flow.State // of the last hop; zero: it has no congestion control
}

// maxBody is C tor's room for a message in a cell, by which it tells what is overhead. It is less in some cells.
const maxBody = cell.PayloadLen - 11

// carried counts for one circuit. It is there once something was counted: relays, and clients of which nobody wants to
// know, have none.
type carried struct {
	cellsIn, messagesIn, bodiesIn atomic.Uint64
	cellsOut, bodiesOut           atomic.Uint64 // each cell that is sent has a message
}

// Count says whether the circuits count what they carry.
func (e *Env) Count(on bool) { e.counting.Store(on) }

// counter returns where to count; nil: nobody wants to know.
func (c *Circuit) counter() *carried {
	if !c.env.counting.Load() {
		return nil
	}
	if n := c.counts.Load(); n != nil {
		return n
	}
	c.counts.CompareAndSwap(nil, new(carried))
	return c.counts.Load()
}

// countRead counts cells that have come.
func (c *Circuit) countRead(cells int) {
	if n := c.counter(); n != nil {
		n.cellsIn.Add(uint64(cells))
	}
}

// countDelivered counts a message that was wanted.
func (c *Circuit) countDelivered(body int) {
	if n := c.counter(); n != nil {
		n.messagesIn.Add(1)
		n.bodiesIn.Add(uint64(body))
	}
}

// countSent counts cells, and the bytes of the bodies in them.
func (c *Circuit) countSent(cells, bodies int) {
	if n := c.counter(); n != nil {
		n.cellsOut.Add(uint64(cells))
		n.bodiesOut.Add(uint64(bodies))
	}
}

// Carried returns what the circuit has carried.
func (c *Circuit) Carried() (out Carried) {
	n := c.counts.Load()
	if n == nil {
		return out
	}
	// In this order: what is counted meanwhile must not make a part more than the whole.
	out.DeliveredRead, out.DeliveredWritten = n.bodiesIn.Load(), n.bodiesOut.Load()
	out.OverheadRead = n.messagesIn.Load()*maxBody - out.DeliveredRead
	sent := n.cellsOut.Load()
	out.OverheadWritten = sent*maxBody - out.DeliveredWritten
	out.Read, out.Written = n.cellsIn.Load()*cell.PayloadLen, sent*cell.PayloadLen
	if h := c.Last(); h != nil && h.info.Congestion {
		c.mu.Lock()
		defer c.mu.Unlock()
		out.Flow = h.send.State()
	}
	return out
}
