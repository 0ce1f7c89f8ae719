package control

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// accepted connects to a port of IPv4 by a socket of the family, and returns the accepted end and the file of the
// other one.
func accepted(t *testing.T, family int) (net.Conn, int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Skipf("no such socket here: %v", err)
	}
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
	}
	if err := unix.Connect(fd, to); err != nil {
		unix.Close(fd)
		t.Skipf("cannot connect so: %v", err)
	}
	c, err := l.Accept()
	if err != nil {
		unix.Close(fd)
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, fd
}

// TestUserOfMapped: a socket of IPv6 that reaches a port of IPv4 is in the kernel's other list, and has a user, too.
func TestUserOfMapped(t *testing.T) {
	c, fd := accepted(t, unix.AF_INET6)
	defer unix.Close(fd)
	if uid, err := userOf(c); err != nil || uid != os.Geteuid() {
		t.Errorf("user %d: %v", uid, err)
	}
}

// TestUserThatHasGone: who has closed its end, or cut the connection, is not let in. Its commands are here
// already, and nobody can tell whose they are.
func TestUserThatHasGone(t *testing.T) {
	for _, cut := range []bool{false, true} {
		c, fd := accepted(t, unix.AF_INET)
		if _, err := unix.Write(fd, []byte("AUTHENTICATE\r\n")); err != nil {
			t.Fatal(err)
		}
		if cut {
			if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
				t.Fatal(err)
			}
		}
		unix.Close(fd)
		if uid, err := userOf(c); err == nil {
			t.Errorf("cut %v: it counts as user %d", cut, uid)
		}
		if OwnUserWhereKnown(c) == nil {
			var b [64]byte
			n, err := c.Read(b[:])
			t.Errorf("cut %v: it is let in, and its commands are read: %q, %v", cut, b[:n], err)
		}
	}
}
