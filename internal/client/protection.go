package client

import (
	"cmp"
	"slices"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// HopProtection says what protects one hop of a circuit.
type HopProtection struct {
	Handshake string // what made the hop: "ntor-v3", "pq768", ...
	circuit.Protection
	Layer string // the hop's relay crypto: "tor1", "cgo", ...
}

// CircuitStatus is an open circuit, for status.
type CircuitStatus struct {
	ID    uint64
	Path  []ident.RSAID // the guard first
	Names []string      // the relays' nicknames; empty: unknown
	Hops  []HopProtection
	// Countries are the relays' countries, in the order of Path; nil: none is known.
	Countries []string
}

// Relays returns the circuit's relays, the nearest first.
func (c *OpenCircuit) Relays() []ident.RSAID {
	hops := c.hops()
	out := make([]ident.RSAID, len(hops))
	for i, h := range hops {
		out[i] = h.Target.RSA
	}
	return out
}

// names returns the relays' nicknames, the nearest first.
func (c *OpenCircuit) names() []string {
	hops := c.hops()
	out := make([]string, len(hops))
	for i, h := range hops {
		if !h.Relay.IsZero() {
			out[i] = h.Relay.Nickname()
		}
	}
	return out
}

// Protection says what protects each hop, the nearest first.
func (c *OpenCircuit) Protection() []HopProtection {
	hops := c.Hops()
	out := make([]HopProtection, len(hops))
	for i, h := range hops {
		out[i] = HopProtection{h.Info().Handshake, h.Protection(), h.Info().Layer}
	}
	return out
}

// circuits lists the open circuits, the oldest first.
func (c *Client) circuits() []CircuitStatus {
	all := c.circs.list()
	slices.SortFunc(all, func(a, b *OpenCircuit) int { return cmp.Compare(a.id, b.id) })
	out := make([]CircuitStatus, len(all))
	for i, circ := range all {
		out[i] = CircuitStatus{circ.id, circ.Relays(), circ.names(), circ.Protection(), c.countries(circ)}
	}
	return out
}

// countries returns the countries of a circuit's relays, if the client knows countries.
func (c *Client) countries(circ *OpenCircuit) []string {
	t := c.live.Load().Path.Countries
	if t == nil {
		return nil
	}
	hops := circ.hops()
	out := make([]string, len(hops))
	for i, h := range hops {
		out[i] = path.Country(t, h.Target.Addrs)
	}
	return out
}
