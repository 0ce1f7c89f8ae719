package circuit

import (
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
)

// VirtualHop says what the two ends of a rendezvous agreed on for the hop between them.
type VirtualHop struct {
	Keys handshake.KeyStream // of hs-ntor
	// Service says that this end is the onion service: then Streams takes the BEGIN
	// messages of the client, and refuses them all if nil.
	Service bool
	Streams StreamHandler
	// KEM is a client's ciphertext for the service's ML-KEM key, and Promise is the
	// one that a service's client has announced (docs/spec/pq-onions.md). Nil: hs-ntor
	// alone protects the hop.
	KEM     *handshake.HSKEMClient
	Promise *OnionPromise
	// SendmeInc is the SENDME increment of congestion control, which the service's
	// descriptor says and the client asks for in INTRODUCE1; zero means fixed windows.
	SendmeInc int
	// CGO says that the ends agreed on counter galois onion (docs/spec/cgo-onions.md),
	// which needs congestion control; else the hop has tor1 with SHA3-256.
	CGO bool
	// HalfClose says that the service takes HALF_CLOSE (docs/spec/half-close.md).
	HalfClose bool
	// Flow holds the consensus's parameters (nil: the defaults), and Path which of
	// Vegas's parameter sets the circuit has.
	Flow *flow.Params
	Path flow.Path
}

// AddVirtualHop adds the hop beyond the last relay of a client's circuit: the other
// end of a rendezvous. A service must call it before it sends RENDEZVOUS1, and a
// client on the channel's reader when RENDEZVOUS2 has come (Hop.Handle), because
// the other end may send at once.
func (c *Circuit) AddVirtualHop(v VirtualHop) (*Hop, error) {
	if c.server != nil {
		return nil, fault.New(fault.Local, "a relay's circuit has no virtual hop")
	}
	if v.Flow == nil {
		p := flow.DefaultParams()
		v.Flow = &p
	}
	t := terms{name: "hs-ntor", keys: v.Keys, crypto: rendezvous, inc: v.SendmeInc}
	if v.CGO {
		t.crypto = rendezvousCGO
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	h, err := c.newHop(t, HopInfo{Client: !v.Service, Onion: true, HalfClose: v.HalfClose}, v.Flow, v.Path)
	if err != nil {
		return nil, err
	}
	h.accepts = v.Streams
	if v.Promise != nil {
		h.expectCiphertext(v.Keys, v.Promise)
	}
	c.addHop(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		h.onion.overdue.end() // Close may have come before the hop
		return nil, fault.New(fault.Closed, "virtual hop: the circuit is closed: %w", c.cause)
	}
	if v.KEM != nil {
		if err := h.sendCiphertextLocked(v.Keys, v.KEM); err != nil {
			return nil, err
		}
	}
	return h, nil
}
