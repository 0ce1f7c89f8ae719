package circuit

import (
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// PQPolicy says how much of a circuit ML-KEM has to protect
// (docs/spec/pq-circuits.md, section 6).
type PQPolicy uint8

// The policies.
const (
	PQPrefer     PQPolicy = iota // every hop that advertises it
	PQOff                        // none
	PQRequireOne                 // every hop that advertises it, and one at least
	PQRequireAll                 // every hop, and each before the next extend passes it
)

// Protection says what protects a hop's traffic, recorded today, from an attacker
// that can break X25519 later. The zero Protection is nothing.
type Protection struct {
	Set      handshake.PQSet
	Carriage handshake.Carriage
}

// IsZero reports whether there is none.
func (p Protection) IsZero() bool { return !p.Set.Valid() }

// String returns "none", or the parameter set and the carriage, as "pq768/A".
func (p Protection) String() string {
	if p.IsZero() {
		return "none"
	}
	return p.Set.String() + "/" + string(rune(p.Carriage))
}

// Strict reports whether each hop must be protected before the next extend
// passes through it.
func (p PQPolicy) Strict() bool { return p == PQRequireAll }

// Plan chooses each hop's protection, from what the targets' signed
// subprotocol lists say and from nothing else: carriage A where the hop and the
// one before it, if any, advertise the set; else B where the hop does. It fails
// when the path cannot give what the policy asks for.
func (p PQPolicy) Plan(set handshake.PQSet, targets []linkspec.Target) ([]Protection, error) {
	plan := make([]Protection, len(targets))
	if p == PQOff {
		return plan, nil
	}
	if !set.Valid() {
		return nil, fault.New(fault.Config, "post-quantum circuit: parameter set %d", set)
	}
	got, hybrid := 0, set.Kind()
	for i := range targets {
		t := &targets[i]
		if t.Ntor.IsZero() || t.Ed.IsZero() {
			continue
		}
		switch {
		case hybrid.SpokenBy(t) && (i == 0 || targets[i-1].Proto.Has(hybrid.Proto, hybrid.Version)):
			plan[i] = Protection{set, handshake.CarriageA}
		case handshake.RekeySpoken(t.Proto):
			plan[i] = Protection{set, handshake.CarriageB}
		default:
			continue
		}
		got++
	}
	if p == PQRequireAll && got < len(targets) || p == PQRequireOne && got == 0 {
		return nil, fault.New(fault.Refused, "post-quantum circuit: %d of the path's %d relays can be protected, which is not what was asked for", got, len(targets))
	}
	return plan, nil
}

// Protection returns what protects the hop now.
func (h *Hop) Protection() Protection {
	set, how := h.PostQuantum()
	return Protection{set, how}
}
