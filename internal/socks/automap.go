package socks

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/stream"
)

// Automap gives names addresses of virtual networks when programs look them up, and leads
// connections to such an address to its name (tor(1), AutomapHostsOnResolve). So programs that
// know of no proxy reach names that have no address, such as those of onion services. All
// ports of a client share one.
type Automap struct {
	suffixes  []string // in small letters; "." is every name
	four, six *virtual
}

// The least sizes of virtual networks, as C tor has them.
const (
	maxBits4 = 16
	maxBits6 = 104
)

// mappedTTL is how many seconds a program may keep an address.
const mappedTTL = 60

// NewAutomap returns an Automap for names that end in one of the suffixes, such as ".onion"; "."
// stands for all names but those of the local network. six may be the zero Prefix: then names have no
// IPv6 addresses.
func NewAutomap(suffixes []string, four, six netip.Prefix) (*Automap, error) {
	a := &Automap{four: newVirtual(four), six: newVirtual(six)}
	for _, s := range suffixes {
		if err := CheckSuffix(s); err != nil {
			return nil, err
		}
		a.suffixes = append(a.suffixes, strings.ToLower(s))
	}
	switch {
	case !four.Addr().Is4() || four.Bits() > maxBits4:
		return nil, fault.New(fault.Config, "a virtual network of IPv4 has at most %d bits before its addresses' own, such as 127.192.0.0/10", maxBits4)
	case six.IsValid() && (!six.Addr().Is6() || six.Addr().Is4In6() || six.Bits() > maxBits6):
		return nil, fault.New(fault.Config, "a virtual network of IPv6 has at most %d bits before its addresses' own, such as fd15:159f:ab53::/48", maxBits6)
	}
	return a, nil
}

// CheckSuffix checks a suffix of names.
func CheckSuffix(s string) error {
	l := strings.ToLower(s)
	switch {
	case l == ".exit" || strings.HasSuffix(l, ".exit"):
		return fault.New(fault.Config, "%q: names that choose an exit are not supported", s)
	case l == ".":
		return nil
	case !netaddr.HostName(strings.TrimPrefix(l, ".")):
		return fault.New(fault.Config, "%q is no end of a host name, such as .onion", s)
	}
	return nil
}

// Forget takes all addresses from their names: connections to them fail until their names are
// looked up again. A nil Automap has none.
func (a *Automap) Forget() {
	if a == nil {
		return
	}
	a.four.forget()
	a.six.forget()
}

// Dialer returns a Dialer that has next do everything else. A nil Automap returns next.
func (a *Automap) Dialer(next Dialer) Dialer {
	if a == nil {
		return next
	}
	return &automapped{a, next}
}

// maps reports whether names are mapped that end as this one.
func (a *Automap) maps(host string) bool {
	if netaddr.LocalName(host) || strings.HasSuffix(host, ".exit") {
		return false // the network refuses them
	}
	for _, s := range a.suffixes {
		if s == "." || strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}

// virtual returns the network that has an address.
func (a *Automap) virtual(addr netip.Addr) *virtual {
	addr = netaddr.Plain(addr)
	switch {
	case a.four.has(addr):
		return a.four
	case a.six.has(addr):
		return a.six
	}
	return nil
}

// automapped is a Dialer of an Automap.
type automapped struct {
	a    *Automap
	next Dialer
}

// stands is what a Dialer of a client with MapAddress also has: the host that a host stands for.
type stands interface{ StandsFor(host string) string }

// target returns a name in the form that suffixes are compared with, after MapAddress.
func (d *automapped) target(host string) string {
	if s, ok := d.next.(stands); ok {
		host = s.StandsFor(host)
	}
	return strings.ToLower(strings.TrimRight(host, "."))
}

// Automaps reports whether a name gets an address from here.
func (d *automapped) Automaps(host string) bool {
	_, err := netip.ParseAddr(host)
	to := d.target(host)
	_, mapped := netip.ParseAddr(to)
	return err != nil && mapped != nil && d.a.maps(to)
}

// Dial implements Dialer.
func (d *automapped) Dial(ctx context.Context, req Request) (net.Conn, error) {
	if addr, err := netip.ParseAddr(req.Host); err == nil {
		if v := d.a.virtual(addr); v != nil {
			name, ok := v.name(netaddr.Plain(addr))
			if !ok {
				return nil, fault.New(fault.Refused, "an address of the virtual network has no name, or no longer: look the name up again")
			}
			req.Host = name
		}
	}
	return d.next.Dial(ctx, req)
}

// Resolve implements Dialer.
func (d *automapped) Resolve(ctx context.Context, req Request) ([]Answer, error) {
	if !d.Automaps(req.Host) {
		return d.next.Resolve(ctx, req)
	}
	to := d.target(req.Host)
	if err := req.Permit.Check(to); err != nil {
		return nil, err
	}
	if hscrypto.IsAddress(to) {
		if _, err := hscrypto.ParseAddress(to); err != nil {
			return nil, Because(NotFound, err)
		}
	}
	v := d.a.four
	if req.Family == stream.IPv6Only {
		v = d.a.six
	}
	if !v.net.IsValid() {
		return nil, nil
	}
	addr, err := v.addr(strings.ToLower(strings.TrimRight(req.Host, ".")))
	if err != nil {
		return nil, err
	}
	return []Answer{{Addr: addr, TTL: mappedTTL}}, nil
}

// ResolvePTR implements Dialer. No exit is asked about a virtual address. Its name is not told:
// another program may have looked it up.
func (d *automapped) ResolvePTR(ctx context.Context, addr netip.Addr, req Request) ([]Answer, error) {
	if d.a.virtual(addr) != nil {
		return nil, Because(NotFound, fault.New(fault.Refused, "names of virtual addresses are not told"))
	}
	return d.next.ResolvePTR(ctx, addr, req)
}

// Mapped reports whether an address stands for a host by the user's word: nobody was asked for it.
func (d *automapped) Mapped(addr string) bool {
	if a, err := netip.ParseAddr(addr); err == nil && d.a.virtual(a) != nil {
		return true
	}
	m, ok := d.next.(interface{ Mapped(host string) bool })
	return ok && m.Mapped(addr)
}
