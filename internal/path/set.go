package path

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// Set names relays, as in options such as ExcludeNodes and EntryNodes: by RSA
// fingerprint, by nickname, by address, or by country. The zero Set names none.
type Set struct {
	ids   map[ident.RSAID]bool
	names map[string]bool // in lower case: nicknames are not case-sensitive
	nets  []netip.Prefix
	text  []string // as it was written

	countries map[string]bool // codes in small letters
	geo       *geoip.Table    // nil: no country is known
}

// ParseSet reads entries such as "$AAAA…" or "AAAA…" (40 hexadecimal digits,
// optionally followed by "~nickname" or "=nickname"), "nickname", "192.0.2.0/24",
// "2001:db8::/32", a single address, or a country such as "{de}", which names relays
// only after WithCountries. "{??}" is the relays whose country nobody knows.
func ParseSet(entries []string) (Set, error) {
	s := Set{ids: map[ident.RSAID]bool{}, names: map[string]bool{}}
	for _, e := range entries {
		if err := s.add(strings.TrimSpace(e)); err != nil {
			return Set{}, err
		}
		s.text = append(s.text, strings.TrimSpace(e))
	}
	return s, nil
}

func (s *Set) add(e string) error {
	switch {
	case e == "":
		return fault.New(fault.Config, "set of relays: an entry is empty")
	case strings.HasPrefix(e, "{"):
		code, err := geoip.Code(strings.TrimSuffix(e[1:], "}"))
		if err != nil || !strings.HasSuffix(e, "}") {
			return fault.New(fault.Config, "set of relays: %q is not a country such as {de}", e)
		}
		if s.countries == nil {
			s.countries = map[string]bool{}
		}
		s.countries[code] = true
		return nil
	}
	if p, err := netip.ParsePrefix(e); err == nil {
		s.nets = append(s.nets, p.Masked())
		return nil
	}
	if a, err := netip.ParseAddr(e); err == nil {
		a = a.Unmap().WithZone("")
		s.nets = append(s.nets, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	if hex, _, _ := strings.Cut(strings.ReplaceAll(e, "=", "~"), "~"); len(strings.TrimPrefix(hex, "$")) == 40 {
		id, err := ident.ParseRSAID(hex)
		if err != nil {
			return err
		}
		s.ids[id] = true
		return nil
	}
	if len(e) > 19 || strings.ContainsFunc(e, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		return fault.New(fault.Config, "set of relays: %q is not a fingerprint, nickname, address, network or country", e)
	}
	s.names[strings.ToLower(e)] = true
	return nil
}

// Countries reports whether the set names countries, and so needs WithCountries.
func (s *Set) Countries() bool { return len(s.countries) > 0 }

// WithCountries returns the set with a table by which it knows relays' countries. unknown
// adds the relays whose country is not known. A country that the table does not have is
// an error.
func (s *Set) WithCountries(t *geoip.Table, unknown bool) (Set, error) {
	out := *s
	out.geo = t
	for _, code := range slices.Sorted(maps.Keys(s.countries)) {
		if !t.Knows(code) {
			return Set{}, fault.New(fault.Config, "set of relays: no address is in the country {%s}", code)
		}
	}
	if unknown {
		out.countries = maps.Clone(s.countries)
		if out.countries == nil {
			out.countries = map[string]bool{}
		}
		out.countries[geoip.Unknown] = true
		out.text = append(slices.Clip(s.text), "{"+geoip.Unknown+"}")
	}
	return out, nil
}

// IsZero reports whether the set names no relay.
func (s *Set) IsZero() bool { return len(s.text) == 0 }

// String lists the entries as they were written.
func (s *Set) String() string { return strings.Join(s.text, ",") }

// Has reports whether the set names r.
func (s *Set) Has(r netdir.Relay) bool {
	if s.IsZero() {
		return false
	}
	if len(s.ids) > 0 && s.ids[r.RSA()] {
		return true
	}
	if len(s.names) > 0 && s.names[strings.ToLower(r.Nickname())] {
		return true
	}
	if len(s.nets) == 0 && s.geo == nil {
		return false
	}
	six, _ := r.IPv6()
	if s.geo != nil && s.countries[s.geo.Of(r.IPv4().Addr(), six.Addr())] {
		return true
	}
	return s.contains(r.IPv4().Addr()) || s.contains(six.Addr())
}

// HasTarget is Has for a relay that others describe, such as an introduction point.
func (s *Set) HasTarget(t *linkspec.Target) bool { return s.has(t.RSA, "", t.Addrs) }

// hasHop is Has for a hop of a path.
func (s *Set) hasHop(h *Hop) bool {
	if h.Relay.IsZero() {
		return s.HasTarget(&h.Target)
	}
	return s.Has(h.Relay)
}

// has is Has for a relay of which only these arguments are known, such as a
// bridge.
func (s *Set) has(id ident.RSAID, nickname string, addrs []netip.AddrPort) bool {
	if s.IsZero() {
		return false
	}
	if s.ids[id] || nickname != "" && s.names[strings.ToLower(nickname)] {
		return true
	}
	for _, a := range addrs {
		if s.contains(a.Addr()) {
			return true
		}
	}
	return s.geo != nil && s.countries[Country(s.geo, addrs)]
}

// Country returns the country of a relay with these addresses.
func Country(t *geoip.Table, addrs []netip.AddrPort) string {
	var four, six netip.Addr
	for _, a := range addrs {
		if a := a.Addr().Unmap(); a.Is4() && !four.IsValid() {
			four = a
		} else if a.Is6() && !six.IsValid() {
			six = a
		}
	}
	return t.Of(four, six)
}

func (s *Set) contains(a netip.Addr) bool {
	for _, p := range s.nets {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
