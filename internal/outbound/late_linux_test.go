package outbound

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLate: the source address takes no port before the kernel connects, for both families; the
// same check without Late sees a port.
func TestLate(t *testing.T) {
	for _, at := range []string{"127.0.0.1", "::1"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
		if err != nil {
			t.Logf("no address %s here: %v", at, err)
			continue
		}
		defer ln.Close()
		from := netip.AddrPortFrom(netip.MustParseAddr(at), 0)
		for _, late := range []bool{true, false} {
			var bound uint16
			look := func(_ context.Context, network, addr string, raw syscall.RawConn) error {
				if late {
					if err := Late(network, addr, raw); err != nil {
						return err
					}
				}
				return raw.Control(func(fd uintptr) { bound = bindPort(t, int(fd), from) })
			}
			conn, err := (&net.Dialer{ControlContext: look}).DialContext(t.Context(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if conn.LocalAddr().(*net.TCPAddr).Port == 0 {
				t.Error("a connection without a port")
			}
			conn.Close()
			if (bound == 0) != late {
				t.Errorf("%s, late %v: bound to port %d before connecting", at, late, bound)
			}
		}
	}
}

// bindPort binds a socket as package net does, and returns the port that it got.
func bindPort(t *testing.T, fd int, from netip.AddrPort) uint16 {
	var sa unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if from.Addr().Is6() {
		sa = &unix.SockaddrInet6{Addr: from.Addr().As16()}
	}
	if err := unix.Bind(fd, sa); err != nil {
		t.Error(err)
		return 0
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		t.Error(err)
	}
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port)
	case *unix.SockaddrInet6:
		return uint16(a.Port)
	}
	return 0
}
