package socks

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
)

// originalDstOption is SO_ORIGINAL_DST of <linux/netfilter_ipv4.h>, and
// IP6T_SO_ORIGINAL_DST: where a connection went before REDIRECT.
const originalDstOption = 80

// canTrans reports whether there are transparent ports on this system.
func canTrans() error { return nil }

// ListenTrans opens a transparent port; see CheckAddr for addr, which cannot be a
// unix socket. With tproxy, the process needs CAP_NET_ADMIN.
func ListenTrans(addr string, tproxy bool) (net.Listener, error) {
	network, a, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if network != "tcp" {
		return nil, fault.New(fault.Config, "listening address %q: a trans port needs an IP address", addr)
	}
	var lc net.ListenConfig
	if tproxy {
		lc.Control = transparent
	}
	l, err := inherit.Listen(&lc, network, a)
	if err == nil && tproxy { // a port that was handed over may not be transparent
		if err = alsoTransparent(l.(*net.TCPListener)); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, listen.Failed(a, err)
	}
	return l, nil
}

func alsoTransparent(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	network := "tcp6"
	if l.Addr().(*net.TCPAddr).IP.To4() != nil {
		network = "tcp4"
	}
	return transparent(network, "", raw)
}

// transparent lets a listener accept connections to addresses of others.
func transparent(network, _ string, raw syscall.RawConn) error {
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if network == "tcp6" {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	var err error
	if e := raw.Control(func(fd uintptr) {
		if on, e := unix.GetsockoptInt(int(fd), level, option); e == nil && on != 0 {
			return // by systemd's Transparent=, or at the first time
		}
		err = os.NewSyscallError("setsockopt: TPROXY needs root or CAP_NET_ADMIN", unix.SetsockoptInt(int(fd), level, option, 1))
	}); e != nil {
		return e
	}
	return err
}

// originalDst asks the kernel where a connection went before REDIRECT.
func originalDst(c net.Conn) (netip.AddrPort, error) {
	t, ok := c.(*net.TCPConn)
	here, err := netaddrOf(c)
	if !ok || err != nil {
		return netip.AddrPort{}, fault.New(fault.Config, "a transparent port needs TCP")
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Local, "transparent port: %w", err)
	}
	var dst netip.AddrPort
	if e := raw.Control(func(fd uintptr) {
		if here.Addr().Is4() {
			dst, err = originalDst4(int(fd))
		} else {
			dst, err = originalDst6(int(fd))
		}
	}); e != nil {
		err = e
	}
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Refused, "the connection did not come by REDIRECT: %w", err)
	}
	return dst, nil
}

// originalDst4 reads a sockaddr_in into a structure of package unix that has room
// for one: family, port, address.
func originalDst4(fd int) (netip.AddrPort, error) {
	m, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, originalDstOption)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b := m.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4])), nil
}

// originalDst6 reads a sockaddr_in6.
func originalDst6(fd int) (netip.AddrPort, error) {
	m, err := unix.GetsockoptIPv6MTUInfo(fd, unix.SOL_IPV6, originalDstOption)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var port [2]byte // in the network's order
	binary.NativeEndian.PutUint16(port[:], m.Addr.Port)
	return netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), binary.BigEndian.Uint16(port[:])), nil
}
