package chive

import (
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
)

// Switch is an option with a default that depends on the network.
type Switch uint8

// The positions of a Switch.
const (
	SwitchAuto Switch = iota // as the network allows
	SwitchOn                 // always, or fail
	SwitchOff                // never
)

// PQPolicy says which hops of a circuit must be post-quantum.
type PQPolicy uint8

// The policies. PQPrefer does not change the choice of relays: a client that
// prefers the few relays with a feature would be distinguishable.
const (
	PQPrefer     PQPolicy = iota // every hop that can be
	PQOff                        // none
	PQRequireOne                 // every hop that can be, and at least one
	PQRequireAll                 // every hop, each before the circuit is extended beyond it
)

// Padding says how much padding a client negotiates: of channels with its guard, or of
// circuits with their second relays.
type Padding uint8

// The amounts of padding.
const (
	PaddingAuto    Padding = iota // as the consensus says
	PaddingReduced                // less, for metered links: C tor's ReducedConnectionPadding, ReducedCircuitPadding
	PaddingOff                    // none: C tor's ConnectionPadding 0, CircuitPadding 0
)

// Vanguards says which relays after the guard stay the same for a while on circuits for
// onion services, of this client's and of those that it hosts. Others can make it build
// such circuits again and again, until one passes through relays of theirs that look
// for the guard.
type Vanguards uint8

// The kinds of vanguards.
const (
	VanguardsAuto Vanguards = iota // VanguardsLite, unless the consensus turns it off: C tor's VanguardsLiteEnabled auto
	VanguardsLite                  // second hops for days
	VanguardsFull                  // also third hops for hours, and one hop more; both survive a restart
	VanguardsOff                   // none
)

// Appearance says whom a client, and the onion services that it hosts, should look like, to
// relays and to whoever watches the line.
type Appearance uint8

// The appearances.
const (
	// AppearanceCommon: like C tor's clients, as far as that is possible. It costs the user time at some
	// places.
	AppearanceCommon Appearance = iota
	// AppearanceFast: where Chive is quicker or handier than C tor, it shows.
	AppearanceFast
)

var (
	appearanceNames = []string{"common", "fast"}

	vanguardsNames = []string{"auto", "lite", "full", "off"}
	switchNames    = []string{"auto", "on", "off"}
	pqNames        = []string{"prefer", "off", "require-one", "require-all"}
	paddingNames   = []string{"auto", "reduced", "off"}
)

// String returns "common" or "fast".
func (a Appearance) String() string { return nameOf(appearanceNames, uint8(a)) }

// MarshalText returns the same text as String.
func (a Appearance) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (a *Appearance) UnmarshalText(b []byte) error { return byName(appearanceNames, (*uint8)(a), b) }

// String returns "auto", "on" or "off".
func (s Switch) String() string { return nameOf(switchNames, uint8(s)) }

// MarshalText returns the same text as String.
func (s Switch) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (s *Switch) UnmarshalText(b []byte) error { return byName(switchNames, (*uint8)(s), b) }

// String returns "prefer", "off", "require-one" or "require-all".
func (p PQPolicy) String() string { return nameOf(pqNames, uint8(p)) }

// MarshalText returns the same text as String.
func (p PQPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (p *PQPolicy) UnmarshalText(b []byte) error { return byName(pqNames, (*uint8)(p), b) }

// String returns "auto", "reduced" or "off".
func (p Padding) String() string { return nameOf(paddingNames, uint8(p)) }

// MarshalText returns the same text as String.
func (p Padding) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (p *Padding) UnmarshalText(b []byte) error { return byName(paddingNames, (*uint8)(p), b) }

// String returns "auto", "lite", "full" or "off".
func (v Vanguards) String() string { return nameOf(vanguardsNames, uint8(v)) }

// MarshalText returns the same text as String.
func (v Vanguards) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (v *Vanguards) UnmarshalText(b []byte) error { return byName(vanguardsNames, (*uint8)(v), b) }

func nameOf(names []string, v uint8) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "invalid"
}

func byName(names []string, v *uint8, b []byte) error {
	for i, n := range names {
		if n == string(b) {
			*v = uint8(i)
			return nil
		}
	}
	return fault.New(fault.Config, "%q is none of %q", b, names)
}

// The values of the options for the internal packages. Check has refused all
// other values.

func (s Switch) inner() client.Switch {
	switch s {
	case SwitchOn:
		return client.On
	case SwitchOff:
		return client.Off
	}
	return client.Auto
}

func (p PQPolicy) inner() circuit.PQPolicy {
	switch p {
	case PQOff:
		return circuit.PQOff
	case PQRequireOne:
		return circuit.PQRequireOne
	case PQRequireAll:
		return circuit.PQRequireAll
	}
	return circuit.PQPrefer
}

func (p Padding) inner() channel.PaddingMode {
	switch p {
	case PaddingReduced:
		return channel.PadReduced
	case PaddingOff:
		return channel.PadOff
	}
	return channel.PadFull
}

func (v Vanguards) inner() guard.VanguardMode {
	switch v {
	case VanguardsLite:
		return guard.VanguardsLite
	case VanguardsFull:
		return guard.VanguardsFull
	case VanguardsOff:
		return guard.VanguardsOff
	}
	return guard.VanguardsAuto
}
