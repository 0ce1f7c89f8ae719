// Package linkspec describes how a relay is reached and identified: the link
// specifiers of EXTEND2 (tor-spec, "EXTEND and EXTENDED cells") and the target that a
// circuit extends to.
package linkspec

import (
	"net/netip"
	"slices"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// Link specifier types.
const (
	TypeIPv4    = 0 // 4-byte address, 2-byte port
	TypeIPv6    = 1 // 16-byte address, 2-byte port
	TypeRSA     = 2 // 20-byte RSA identity digest
	TypeEd25519 = 3 // 32-byte Ed25519 identity
)

// Spec is one link specifier; specifiers of unknown types are kept unchanged.
type Spec struct {
	Type uint8
	Body []byte
}

// Target is a relay that a channel connects to or a circuit extends to.
type Target struct {
	ident.RelayID
	Addrs []netip.AddrPort // ORPorts, the preferred one first
	Ntor  ident.X25519Key  // onion key; zero when unknown (CREATE_FAST only)
	Proto protover.Set     // from the consensus; zero if unknown
}

// Reach returns the addresses at which the target can be reached: the first address
// of each family, in their order. With more, one extend could make a relay open many
// connections.
func (t *Target) Reach() []netip.AddrPort {
	var out []netip.AddrPort
	var seen [2]bool
	for _, ap := range t.Addrs {
		family := &seen[0]
		if ap.Addr().Unmap().Is6() {
			family = &seen[1]
		}
		if !*family {
			*family = true
			out = append(out, ap)
		}
	}
	return out
}

// OneAddress returns the target with the address by which C tor's clients reach a relay, and have others reach it: its IPv4 address, if
// it has one.
func (t Target) OneAddress() Target {
	all := t.Reach()
	first := max(slices.IndexFunc(all, func(a netip.AddrPort) bool { return a.Addr().Unmap().Is4() }), 0)
	t.Addrs = all[first:min(first+1, len(all))]
	return t
}

// Specs returns the target's link specifiers in the order that the specification
// requires: IPv4, RSA identity, Ed25519 identity, IPv6.
func (t *Target) Specs() []Spec {
	var specs []Spec
	var six *Spec
	for _, ap := range t.Reach() {
		a := ap.Addr().Unmap()
		port := []byte{byte(ap.Port() >> 8), byte(ap.Port())}
		if a.Is4() {
			b := a.As4()
			specs = append(specs, Spec{TypeIPv4, append(b[:], port...)})
		} else {
			b := a.As16()
			six = &Spec{TypeIPv6, append(b[:], port...)}
		}
	}
	if !t.RSA.IsZero() {
		specs = append(specs, Spec{TypeRSA, t.RSA[:]})
	}
	if !t.Ed.IsZero() {
		specs = append(specs, Spec{TypeEd25519, t.Ed[:]})
	}
	if six != nil {
		specs = append(specs, *six)
	}
	return specs
}

// Append writes the count and the specifiers. It panics on a specifier or a list that
// is too long for its length field: those are bugs of the caller, because specifiers
// from Specs or Read always fit.
func Append(dst []byte, specs []Spec) []byte {
	if len(specs) > 255 {
		panic("linkspec: more than 255 specifiers")
	}
	dst = append(dst, byte(len(specs)))
	for _, s := range specs {
		if len(s.Body) > 255 {
			panic("linkspec: specifier longer than 255 bytes")
		}
		dst = append(dst, s.Type, byte(len(s.Body)))
		dst = append(dst, s.Body...)
	}
	return dst
}

// Read reads a count and that many specifiers. Bodies alias the message.
func Read(r *bin.Reader) []Spec {
	n := int(r.U8())
	specs := make([]Spec, 0, min(n, 8))
	for range n {
		s := Spec{Type: r.U8()}
		s.Body = r.Vec8()
		if r.Err() != nil {
			return nil
		}
		specs = append(specs, s)
	}
	return specs
}

// MaxSpecs is how many link specifiers a target may have, with those of unknown
// types. Four types are known.
const MaxSpecs = 16

// bodyLen is the length of the body of each known type, in bytes.
var bodyLen = map[uint8]int{TypeIPv4: 6, TypeIPv6: 18, TypeRSA: 20, TypeEd25519: 32}

// TargetOf reads identities and addresses from the specifiers of an EXTEND2, and
// checks them as C tor does. It refuses a known type of the wrong length, two
// identities of one type, a missing RSA identity or one of zeros (each extend would
// open a new link), and specifiers without an address that a relay can have. The
// first address of each family counts. An Ed25519 identity of zeros counts as
// missing. Unknown types are ignored.
func TargetOf(specs []Spec) (Target, error) {
	var t Target
	if len(specs) > MaxSpecs {
		return Target{}, fault.New(fault.Protocol, "link specifiers: %d, more than %d", len(specs), MaxSpecs)
	}
	seen := map[uint8]bool{}
	for _, s := range specs {
		want, known := bodyLen[s.Type]
		if !known {
			continue
		}
		if len(s.Body) != want {
			return Target{}, fault.New(fault.Protocol, "link specifier of type %d: %d bytes, not %d", s.Type, len(s.Body), want)
		}
		again := seen[s.Type]
		seen[s.Type] = true
		switch s.Type {
		case TypeIPv4, TypeIPv6:
			if ap := readAddr(s.Body); !again && reachable(s.Type, ap) {
				t.Addrs = append(t.Addrs, ap)
			}
			continue
		case TypeRSA:
			copy(t.RSA[:], s.Body)
		case TypeEd25519:
			copy(t.Ed[:], s.Body)
		}
		if again {
			return Target{}, fault.New(fault.Protocol, "link specifiers: two identities of type %d", s.Type)
		}
	}
	if t.RSA.IsZero() {
		return Target{}, fault.New(fault.Protocol, "link specifiers: no RSA identity")
	}
	if len(t.Addrs) == 0 {
		return Target{}, fault.New(fault.Protocol, "link specifiers: no address")
	}
	return t, nil
}

func readAddr(body []byte) netip.AddrPort {
	n := len(body) - 2
	a, _ := netip.AddrFromSlice(body[:n])
	return netip.AddrPortFrom(a, uint16(body[n])<<8|uint16(body[n+1]))
}

// reachable reports whether a relay can have an address. The unspecified address,
// port 0, and an IPv4-mapped IPv6 address are not possible.
func reachable(typ uint8, ap netip.AddrPort) bool {
	return ap.Port() != 0 && !ap.Addr().IsUnspecified() && (typ == TypeIPv4 || !ap.Addr().Is4In6())
}
