package netaddr

import (
	"fmt"
	"net/netip"
	"strings"
)

// Sources are the addresses of this machine from which connections come; one that is not
// valid leaves the choice to the system.
type Sources struct{ V4, V6 netip.Addr }

// ParseSource reads one address, also an IPv6 address in square brackets.
func ParseSource(s string) (netip.Addr, error) {
	text := s
	if in, ok := strings.CutPrefix(s, "["); ok {
		if text, ok = strings.CutSuffix(in, "]"); !ok || !strings.Contains(text, ":") {
			text = ""
		}
	}
	a, err := netip.ParseAddr(text)
	switch a = a.Unmap(); {
	case err != nil:
		return a, fmt.Errorf("%q is no IP address", s)
	case a.Zone() != "":
		return a, fmt.Errorf("%q names a network card, which a source address cannot", s)
	case a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return a, fmt.Errorf("%s is no address of one machine", a)
	}
	return a, nil
}

// ParseSources reads at most one address of each family.
func ParseSources(list []string) (Sources, error) {
	var out Sources
	for _, s := range list {
		a, err := ParseSource(s)
		if err != nil {
			return Sources{}, err
		}
		at, family := &out.V6, "IPv6"
		if a.Is4() {
			at, family = &out.V4, "IPv4"
		}
		if at.IsValid() {
			return Sources{}, fmt.Errorf("%s and %s: one address of %s is possible", *at, a, family)
		}
		*at = a
	}
	return out, nil
}

// Or returns s, with the addresses of other for the families of which s has none.
func (s Sources) Or(other Sources) Sources {
	if !s.V4.IsValid() {
		s.V4 = other.V4
	}
	if !s.V6.IsValid() {
		s.V6 = other.V6
	}
	return s
}

// All returns the addresses that there are.
func (s Sources) All() []netip.Addr {
	var out []netip.Addr
	for _, a := range []netip.Addr{s.V4, s.V6} {
		if a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}

// To returns the address for a connection to another one; the zero Addr leaves the choice to
// the system. As in C tor, that is so for connections inside this machine, unless the source
// address is for these alone.
func (s Sources) To(to netip.Addr) netip.Addr {
	from := s.V6
	if to = to.Unmap(); to.Is4() {
		from = s.V4
	}
	if to.IsLoopback() && !from.IsLoopback() {
		return netip.Addr{}
	}
	return from
}
