package socks

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
)

// unixPrefix marks the path of a unix socket in a listening address.
const unixPrefix = "unix:"

// CheckAddr reports whether s is an address that Listen understands: a port,
// which means loopback; an IP address and port; or "unix:" and a path. Host
// names are refused, since looking them up would ask the system's resolver.
func CheckAddr(s string) error {
	_, _, err := splitAddr(s)
	return err
}

func splitAddr(s string) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(s, unixPrefix); ok {
		if path == "" {
			return "", "", fault.New(fault.Config, "listening address %q has no path", s)
		}
		return "unix", path, nil
	}
	if port, err := strconv.ParseUint(s, 10, 16); err == nil {
		return "tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)).String(), nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", "", fault.New(fault.Config, "listening address %q is not a port, an IP address with a port, or unix:PATH", s)
	}
	return "tcp", ap.String(), nil
}

// Listen opens a stream listener; see CheckAddr for addr. A unix socket is
// made for this user only, and takes the place of one that nobody serves.
func Listen(addr string) (net.Listener, error) {
	network, a, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		return ListenUnix(a)
	}
	lc := new(net.ListenConfig)
	if ap, err := netip.ParseAddrPort(a); err == nil && ap.Addr().IsLoopback() {
		lc.KeepAlive = -1 // a program of this machine cannot vanish without a sign
	}
	l, err := inherit.Listen(lc, network, a)
	if err != nil {
		return nil, listen.Failed(a, err)
	}
	return l, nil
}

// Listen opens the port as a stream listener.
func (p *Port) Listen() (net.Listener, error) {
	if path, ok := strings.CutPrefix(p.Addr, unixPrefix); ok && path != "" {
		return listenUnix(path, p.Mode)
	}
	return Listen(p.Addr)
}

// ListenPacket opens a datagram socket for the DNS port; see CheckAddr for
// addr, which cannot be a unix socket.
func ListenPacket(addr string) (net.PacketConn, error) {
	network, a, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if network != "tcp" {
		return nil, fault.New(fault.Config, "listening address %q: DNS needs an IP address", addr)
	}
	c, err := inherit.ListenPacket(a)
	if err != nil {
		return nil, listen.Failed(a, err)
	}
	return c, nil
}

// Exposed reports whether other machines can reach a listening address.
func Exposed(a net.Addr) bool {
	ip := netaddr.Of(a)
	return ip.IsValid() && !ip.IsLoopback()
}
