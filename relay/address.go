package relay

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/options"
)

// place is an entry of Config.Address.
type place struct {
	name string     // empty: addr is given
	addr netip.Addr // without a name
	port uint16     // 0: the ORPort's
}

// parsePlace reads "IP", "IP:PORT", "NAME" or "NAME:PORT".
func parsePlace(s string) (place, error) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return place{addr: a.Addr(), port: a.Port()}, nil
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return place{addr: a}, nil
	}
	name, port, hasPort := strings.Cut(s, ":")
	p := place{name: strings.TrimSuffix(name, ".")}
	n, err := strconv.ParseUint(port, 10, 16)
	last := p.name[strings.LastIndexByte(p.name, '.')+1:]
	if hasPort && (err != nil || n == 0) || !netaddr.HostName(p.name) || netaddr.LocalName(p.name) || strings.Trim(last, "0123456789") == "" {
		return place{}, options.Wrong("Address", "%q is not IP:PORT, and no IP or name, with a port or without", s)
	}
	p.port = uint16(n)
	return p, nil
}

// finder finds the addresses that a Config does not say.
type finder struct {
	lookup func(name string) ([]netip.Addr, error)
	own    func() ([]net.Addr, error) // of this machine's interfaces
}

// finding asks the machine and its name servers.
var finding = finder{lookUp, net.InterfaceAddrs}

// checking asks no name server: a name has an address that it surely does not have.
var checking = finder{func(string) ([]netip.Addr, error) { return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1})}, nil }, net.InterfaceAddrs}

// lookupTime bounds the lookup of the relay's name.
const lookupTime = 15 * time.Second

// lookUp asks the system's name servers for the addresses of the relay's own name.
func lookUp(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name+".")
}

// addresses returns where others reach a relay that listens at some addresses; port 0 is the
// listener's. Empty: there. private says that relays may have private addresses.
func (f finder) addresses(cfg *Config, listen []netip.AddrPort, private bool) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, s := range cfg.Address {
		p, err := parsePlace(s)
		if err != nil {
			return nil, err
		}
		if p.name == "" {
			out = append(out, netip.AddrPortFrom(p.addr, p.port))
			continue
		}
		found, err := f.lookup(p.name)
		if err != nil {
			return nil, fault.New(fault.Network, "address: %w", err)
		}
		more := usable(found, listen, private)
		if len(more) == 0 {
			return nil, options.Wrong("Address", "the name %s has no IPv4 address that others could reach", p.name)
		}
		for _, a := range more {
			out = append(out, netip.AddrPortFrom(a, p.port))
		}
	}
	if len(out) > 0 || saysWhere(cfg, listen, private) {
		return out, nil
	}
	a, err := f.ownAddress(private)
	if err != nil {
		return nil, err
	}
	return []netip.AddrPort{netip.AddrPortFrom(a, 0)}, nil
}

// usable returns the first IPv4 address of a name, and the first of IPv6 if there is one and
// the relay listens there.
func usable(found []netip.Addr, listen []netip.AddrPort, private bool) (out []netip.Addr) {
	six := slices.ContainsFunc(listen, func(l netip.AddrPort) bool { return l.Addr().Is6() })
	for _, wantSix := range []bool{false, true} {
		for _, a := range found {
			a = netaddr.Plain(a)
			if a.Is6() == wantSix && (private || netaddr.Public(a)) {
				out = append(out, a)
				break
			}
		}
		if len(out) == 0 || !six {
			break
		}
	}
	return out
}

// saysWhere reports whether the ORPort itself says where others reach it, or a mistake in it
// is to be told. A bridge's ORPort may be behind its transports, on loopback.
func saysWhere(cfg *Config, listen []netip.AddrPort, private bool) bool {
	if len(listen) == 0 {
		return true
	}
	behind := cfg.Bridge && len(cfg.ServerTransportPlugins)+len(cfg.ServerTransportListen)+len(cfg.ServerTransportOptions)+len(cfg.Transports) > 0
	for _, l := range listen {
		a := l.Addr().Unmap()
		switch {
		case a.IsUnspecified(), behind && a.IsLoopback() && !private:
		default:
			return true
		}
	}
	return false
}

// ownAddress returns the one public IPv4 address of this machine's interfaces. In a network
// where relays may have private addresses it is the first that is not loopback, if there is one.
func (f finder) ownAddress(private bool) (netip.Addr, error) {
	all, err := f.own()
	if err != nil {
		return netip.Addr{}, fault.New(fault.Local, "addresses of this machine: %w", err)
	}
	var own []netip.Addr
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		if ip = ip.Unmap(); !ok || !ip.Is4() || slices.Contains(own, ip) {
			continue
		}
		if private && ip.IsGlobalUnicast() || !private && netaddr.Public(ip) {
			own = append(own, ip)
		}
	}
	switch {
	case len(own) == 1, private && len(own) > 0:
		return own[0], nil
	case private:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	case len(own) > 1:
		return netip.Addr{}, options.Wrong("Address", "this machine has %d public IPv4 addresses: say by which one others reach the relay", len(own))
	}
	return netip.Addr{}, options.Wrong("Address", "this machine has no public IPv4 address of its own: say by which one others reach the relay")
}
