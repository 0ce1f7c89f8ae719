// Package linkspec says how a relay is reached and named: the link specifiers
// of EXTEND2 (tor-spec, "EXTEND and EXTENDED cells") and the target that a
// circuit extends to.
package linkspec

import (
	"net/netip"

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

// Spec is one link specifier; unknown types are carried as they are.
type Spec struct {
	Type uint8
	Body []byte
}

// Target is a relay that a channel connects to or a circuit extends to.
type Target struct {
	ident.RelayID
	Addrs []netip.AddrPort // ORPorts, the preferred one first
	Ntor  ident.X25519Key  // onion key; zero when unknown (CREATE_FAST only)
	Proto protover.Set     // as the consensus says; zero when unknown
}

// Specs returns the target's link specifiers in the order that the
// specification asks for: IPv4, RSA identity, Ed25519 identity, IPv6. At most
// one address of each family is named.
func (t *Target) Specs() []Spec {
	var specs []Spec
	var six *Spec
	four := false
	for _, ap := range t.Addrs {
		a := ap.Addr().Unmap()
		port := []byte{byte(ap.Port() >> 8), byte(ap.Port())}
		switch {
		case a.Is4() && !four:
			b := a.As4()
			specs = append(specs, Spec{TypeIPv4, append(b[:], port...)})
			four = true
		case a.Is6() && six == nil:
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

// Append writes the count and the specifiers. It panics on a specifier or a
// list that is too long for its length field: those are bugs of the caller.
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

// TargetOf reads identities and addresses out of specifiers. A known type of
// the wrong length, a repeated identity, and a missing RSA identity are
// refused; unknown types are passed over.
func TargetOf(specs []Spec) (Target, error) {
	var t Target
	seen := map[uint8]bool{}
	for _, s := range specs {
		want, known := map[uint8]int{TypeIPv4: 6, TypeIPv6: 18, TypeRSA: 20, TypeEd25519: 32}[s.Type]
		if !known {
			continue
		}
		if len(s.Body) != want {
			return Target{}, fault.New(fault.Protocol, "link specifier of type %d: %d bytes, not %d", s.Type, len(s.Body), want)
		}
		if s.Type >= TypeRSA && seen[s.Type] {
			return Target{}, fault.New(fault.Protocol, "link specifiers: two identities of type %d", s.Type)
		}
		seen[s.Type] = true
		switch s.Type {
		case TypeIPv4, TypeIPv6:
			n := len(s.Body) - 2
			a, _ := netip.AddrFromSlice(s.Body[:n])
			t.Addrs = append(t.Addrs, netip.AddrPortFrom(a, uint16(s.Body[n])<<8|uint16(s.Body[n+1])))
		case TypeRSA:
			copy(t.RSA[:], s.Body)
		case TypeEd25519:
			copy(t.Ed[:], s.Body)
		}
	}
	if !seen[TypeRSA] {
		return Target{}, fault.New(fault.Protocol, "link specifiers: no RSA identity")
	}
	return t, nil
}
