package circuit

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// confluxSets is the sets of one relay by their nonces, which clients choose
// and nobody else knows.
type confluxSets struct {
	mu sync.Mutex // guards what follows
	m  map[[32]byte]*Set
}

// maxLegs bounds the legs of a set (C tor's clients make two).
const maxLegs = 8

// maxSets bounds the sets of a relay.
const maxSets = 1 << 16

// link takes CONFLUX_LINK from a client: it makes h a leg of the set that the
// nonce names, or of a new one, and answers CONFLUX_LINKED.
func (s *Server) link(h *Hop, body []byte) error {
	m, err := cell.ParseConfluxLink(body)
	if err != nil {
		return err
	}
	if !h.info.Congestion || h.set.Load() != nil || h.Streams() > 0 {
		return fault.New(fault.Protocol, "CONFLUX_LINK on a circuit without congestion control, with streams, or of a set")
	}
	set, err := s.sets.get(m.Nonce, h.c.env.Now)
	if err != nil {
		h.c.Close(cell.DestroyResourceLimit, err)
		return nil
	}
	set.mu.Lock()
	legs, sent := len(set.legs), set.sent
	set.mu.Unlock()
	set.rmu.Lock()
	delivered := set.delivered
	set.rmu.Unlock()
	if legs >= maxLegs {
		return fault.New(fault.Protocol, "CONFLUX_LINK: the set has %d legs", legs)
	}
	answer := cell.ConfluxLink{Nonce: m.Nonce, LastSent: sent, LastRecv: delivered, UX: m.UX}
	h.linkedAt = h.Now()
	if err := h.Send(cell.RelayConfluxLinked, 0, answer.Append(nil)); err != nil {
		return ignoreClosed(err)
	}
	if err := set.add(h, 0); err != nil {
		return ignoreClosed(err)
	}
	h.c.OnClose(func(error) { s.sets.drop(m.Nonce) })
	return nil
}

// linkedAck takes CONFLUX_LINKED_ACK: the round trip is known now.
func (h *Hop) linkedAck() error {
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

func (c *confluxSets) get(nonce [32]byte, now func() time.Time) (*Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.m[nonce]; s != nil {
		return s, nil
	}
	if len(c.m) >= maxSets {
		return nil, fault.New(fault.Resource, "conflux: the relay has %d sets", len(c.m))
	}
	if c.m == nil {
		c.m = map[[32]byte]*Set{}
	}
	s := newSet(nonce, now)
	c.m[nonce] = s
	return s, nil
}

func (c *confluxSets) drop(nonce [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, nonce)
}

// ignoreClosed drops the error of a circuit that closed meanwhile.
func ignoreClosed(err error) error {
	if fault.Is(err, fault.Closed) {
		return nil
	}
	return err
}
