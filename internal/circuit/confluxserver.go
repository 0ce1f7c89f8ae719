package circuit

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// confluxSets has the sets of one relay by their nonces, which clients choose and
// keep secret. A set exists as long as its legs. Each circuit has at most one
// set, so the bound on circuits bounds the sets too; a separate bound could be
// used up by one client.
type confluxSets struct {
	mu sync.Mutex // guards what follows
	m  map[[32]byte]*heldSet
}

// heldSet is a set and the number of open circuits that asked to be its legs.
type heldSet struct {
	set   *Set
	asked int
}

// maxLegs bounds the legs of a set (C tor's clients make two).
const maxLegs = 8

// confluxLink handles CONFLUX_LINK from a client: it makes h a leg of the set
// that the nonce names, or of a new one, and answers CONFLUX_LINKED.
func confluxLink(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	s := h.c.server.s
	m, err := cell.ParseConfluxLink(msg.Data)
	if err != nil {
		return err
	}
	if !h.info.Congestion || h.set.Load() != nil || h.Streams() > 0 || h.c.extended() || h.c.server.hs != hsNone {
		return fault.New(fault.Protocol, "CONFLUX_LINK on a circuit without congestion control, with streams, of a set, that was extended, or that serves an onion service")
	}
	set, err := s.sets.hold(m.Nonce, h.c.env.Now)
	if err != nil {
		return err
	}
	// Release the set in any case, even if linking fails.
	h.c.OnClose(func(error) { s.sets.release(m.Nonce) })
	set.mu.Lock()
	set.ux = m.UX
	sent := set.sent
	set.mu.Unlock()
	set.rmu.Lock()
	delivered := set.delivered
	set.rmu.Unlock()
	// Like C tor's: what clients send must not wait here for what took the slow leg.
	answer := cell.ConfluxLink{Nonce: m.Nonce, LastSent: sent, LastRecv: delivered, UX: cell.ConfluxMinLatency}
	h.linkedAt = h.Now()
	if err := h.Send(cell.RelayConfluxLinked, 0, answer.Append(nil)); err != nil {
		return fault.Except(fault.Closed, err)
	}
	if err := set.add(&leg{hop: h}); err != nil {
		// Another leg has closed meanwhile. For the client this circuit is a leg
		// of that set: it is useless alone.
		h.c.Close(cell.DestroyNone, err)
	}
	return nil
}

// confluxLinkedAck handles CONFLUX_LINKED_ACK, which gives the round-trip time.
func confluxLinkedAck(h *Hop, _ cell.RelayMsg, _ cell.Command) error {
	set := h.set.Load()
	if set == nil || h.linkedAt.IsZero() {
		return fault.New(fault.Protocol, "CONFLUX_LINKED_ACK without CONFLUX_LINK")
	}
	rtt := h.Now().Sub(h.linkedAt)
	h.linkedAt = time.Time{}
	set.mu.Lock()
	defer set.mu.Unlock()
	if l := set.legOf(h); l != nil {
		l.rtt = rtt
	}
	return nil
}

// hold returns the set of a nonce, or a new one, for a circuit that asks to be
// its leg. The circuit must release it when it closes.
func (c *confluxSets) hold(nonce [32]byte, now func() time.Time) (*Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[nonce]
	if s == nil {
		s = &heldSet{set: newSet(nonce, now)}
		if c.m == nil {
			c.m = map[[32]byte]*heldSet{}
		}
		c.m[nonce] = s
	}
	if s.asked >= maxLegs {
		return nil, fault.New(fault.Protocol, "CONFLUX_LINK: the set has %d legs", s.asked)
	}
	s.asked++
	return s.set, nil
}

// ConfluxSets returns the number of sets that are open.
func (s *Server) ConfluxSets() int {
	s.sets.mu.Lock()
	defer s.sets.mu.Unlock()
	return len(s.sets.m)
}

// release removes a circuit from the set of a nonce. With the last circuit the
// set is removed.
func (c *confluxSets) release(nonce [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[nonce]
	if s.asked--; s.asked == 0 {
		delete(c.m, nonce)
	}
}
