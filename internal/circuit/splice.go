package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// join makes c and o the two halves of a rendezvous: what comes on one and is not for
// this relay goes out on the other, and when one closes, the other does too. False
// means that one was closed already. Only one lock is held at a time, so the order of
// the two does not matter.
func (c *Circuit) join(o *Circuit) bool {
	ok := o.joinTo(c) && c.joinTo(o)
	if !ok {
		cause := fault.New(fault.Closed, "circuit: the other half of the rendezvous has closed")
		c.Close(cell.DestroyFinished, cause)
		o.Close(cell.DestroyFinished, cause)
	}
	return ok
}

func (c *Circuit) joinTo(o *Circuit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed.Load() { // Close looks at joined after it has set closed
		c.server.joined.Store(o)
	}
	return !c.closed.Load()
}

// toJoined sends unrecognised cells on to the other half of a rendezvous: they get a
// layer of that circuit and wait in its queue, which has the same bound as that for
// cells from a partner. It runs on the reader of c's channel and reports whether c
// lives.
func (c *Circuit) toJoined(o *Circuit, cells []byte) bool {
	for at := 0; at < len(cells); at += cell.Len {
		if b := cells[at : at+cell.Len]; cell.Cmd(b) == cell.CmdRelayEarly {
			cell.PutHeader(b, 0, cell.CmdRelay) // no RELAY_EARLY goes toward a client
		}
	}
	home, claimed, err := o.wrap(cells)
	if claimed {
		c.Channel().FlushLater(home.Channel())
	}
	limit, _ := o.env.Queues.limits()
	return c.pass(err, home.Queued(), limit)
}
