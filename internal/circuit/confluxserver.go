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
	set   *ConfluxSet
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
	if err := h.linkable(); err != nil {
		return err
	}
	set, err := s.sets.hold(m.Nonce, h.c.env.Now)
	if err != nil {
		return err
	}
	// Release the set in any case, even if linking fails.
	h.c.OnClose(func(error) { s.sets.release(m.Nonce) })
	answer, err := set.answer(&m)
	if err != nil {
		return err
	}
	h.linkedAt = h.Now()
	if err := h.Send(cell.RelayConfluxLinked, 0, answer.Append(nil)); err != nil {
		return fault.Except(fault.Closed, err)
	}
	// Both ends count on the leg from what LINKED says, as C tor does.
	if err := set.add(&leg{hop: h, sent: answer.LastSent, recv: answer.LastRecv}); err != nil {
		// Another leg has closed meanwhile. For the client this circuit is a leg
		// of that set: it is useless alone.
		h.c.Close(cell.DestroyNone, err)
	}
	return nil
}

// linkable refuses CONFLUX_LINK on a circuit that is more than a way to this relay, as C
// tor does. Streams and lookups from before would belong to one leg, and what the set
// knows of its order would not hold for them.
func (h *Hop) linkable() error {
	var why string
	switch c := h.c; {
	case !h.info.Congestion:
		why = "without congestion control"
	case h.set.Load() != nil:
		why = "of a set"
	case h.opened:
		why = "that has opened a stream or asked for a name"
	case c.leadsOn():
		why = "that was extended"
	case c.server.hs != hsNone:
		why = "that serves an onion service"
	default:
		return nil
	}
	return fault.New(fault.Protocol, "CONFLUX_LINK on a circuit %s", why)
}

// answer returns the LINKED that answers a client's LINK. It refuses one that has received
// more than was sent: nothing here needs what it says, but a client that says so lies.
func (s *ConfluxSet) answer(m *cell.ConfluxLink) (*cell.ConfluxLink, error) {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.LastRecv > s.sent {
		return nil, fault.New(fault.Protocol, "CONFLUX_LINK: %d messages were received, of %d that were sent", m.LastRecv, s.sent)
	}
	s.ux = m.UX
	// Like C tor's: what clients send must not wait here for what took the slow leg.
	return &cell.ConfluxLink{Nonce: m.Nonce, LastSent: s.sent, LastRecv: s.delivered, UX: cell.ConfluxMinLatency}, nil
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
	if l := set.legOfLocked(h); l != nil {
		l.rtt = rtt
	}
	return nil
}

// hold returns the set of a nonce, or a new one, for a circuit that asks to be
// its leg. The circuit must release it when it closes.
func (c *confluxSets) hold(nonce [32]byte, now func() time.Time) (*ConfluxSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[nonce]
	if s == nil {
		s = &heldSet{set: newConfluxSet(nonce, now)}
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
