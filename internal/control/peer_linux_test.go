package control

import (
	"net"
	"os"
	"testing"
)

// TestUserOfTCP: the kernel's list of sockets names this user, and not that of a connection that is not there.
func TestUserOfTCP(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s is not tried: %v", at, err)
			continue
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		from, to := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
		if uid, err := userOfTCP(from, to); err != nil || uid != os.Geteuid() {
			t.Error(uid, err)
		}
		other := &net.TCPAddr{IP: from.IP, Port: 1}
		if _, err := userOfTCP(other, to); err != errGone {
			t.Error(err)
		}
		c.Close()
		l.Close()
	}
	if got := hex4(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 0x1f90}); got != "0100007F:1F90" {
		t.Error(got)
	}
}
