// Package benchcirc measures how long circuits take to build: real ones, over
// TLS on loopback or on a network that exists, stage by stage.
//
// Its own relays run in separate processes, so that the kernel counts the processor
// time of each side. Within a process, the code that computes handshakes measures
// their time. No result comes from subtracting a constant.
package benchcirc

import (
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/options"
)

// A Plan says what to measure.
type Plan struct {
	Count     int    // circuits
	Hops      int    // 1 to 8
	Handshake string // one of Handshakes
	Carriage  string // "A" or "B"; only with a post-quantum handshake
	Cold      bool   // fetch and verify the directory for each circuit
	// Network if set, is measured, with paths as clients choose them; nil means
	// relays of the measurement's own.
	Network *netdir.Network
	// Command starts a relay of the measurement's own: a program and arguments
	// that call ServeRelay. Empty: the relays run inside this process, and their
	// processor time is not known.
	Command []string
	// Lengths, when set, asks for this many further circuits of each length
	// from 1 to 8.
	Lengths int
}

// Handshakes returns the names of the handshakes that can make every hop of a
// circuit.
func Handshakes() []string {
	var out []string
	for _, k := range handshake.Kinds {
		if k.Form.Extend != 0 {
			out = append(out, k.Name)
		}
	}
	return out
}

const (
	maxCount = 1_000_000
	maxHops  = 8
	warmUp   = 5 // circuits that are not counted: they open the links
)

// kind returns the handshake.
func (p *Plan) kind() (*handshake.Kind, error) {
	names := Handshakes()
	if !slices.Contains(names, p.Handshake) {
		return nil, fault.New(fault.Config, "handshake: %w", options.NotOneOf(p.Handshake, names))
	}
	return handshake.Named(p.Handshake), nil
}

// Check returns an error for the first part of the plan that is not possible.
func (p *Plan) Check() error {
	if p.Count < 1 || p.Count > maxCount || p.Lengths < 0 || p.Lengths > maxCount {
		return fault.New(fault.Config, "count: 1 to %d circuits are possible", maxCount)
	}
	if p.Hops < 1 || p.Hops > maxHops {
		return fault.New(fault.Config, "hops: 1 to %d are possible", maxHops)
	}
	k, err := p.kind()
	if err != nil {
		return err
	}
	switch {
	case p.Carriage != "" && p.Carriage != "A" && p.Carriage != "B":
		return fault.New(fault.Config, "carriage: %q is neither A nor B", p.Carriage)
	case p.Carriage != "" && !k.Set.Valid():
		return fault.New(fault.Config, "carriage: %s has none", k.Name)
	case p.Network != nil && p.Carriage == "B":
		return fault.New(fault.Config, "carriage: on a network it is what the relays advertise")
	case p.Network != nil && p.Lengths > 0:
		return fault.New(fault.Config, "circuits of all lengths are measured with this program's own relays only")
	case p.Network != nil && !p.Network.Testing.AllowPrivateAddresses && p.Hops < 3:
		return fault.New(fault.Config, "hops: on a public network, 3 at least")
	}
	return nil
}
