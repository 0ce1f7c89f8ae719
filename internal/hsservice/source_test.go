package hsservice

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
)

// TestTargetSource: a target sees the address that the user wants; if the machine does not have
// it, no other one shows. A socket of this machine has no such address.
func TestTargetSource(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if second, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no second loopback address: %v", err)
	} else {
		second.Close()
	}
	s := new(Service)
	for from, want := range map[string]string{"127.0.0.2": "127.0.0.2", "192.0.2.5": "127.0.0.1"} {
		s.cfg.Outbound = netaddr.Sources{V4: netip.MustParseAddr(from)}
		for _, to := range []net.Listener{ln, socket} {
			c, err := s.dial(t.Context(), Target{to.Addr().Network(), to.Addr().String()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			came, err := to.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer came.Close()
			if got := netaddr.Of(came.RemoteAddr()); to == ln && got.String() != want {
				t.Errorf("from %s: the target sees %v", from, got)
			}
		}
	}
	s.cfg.Outbound.V4 = netip.MustParseAddr("192.0.2.5")
	if _, err := s.dial(t.Context(), Target{"tcp", "198.51.100.1:80"}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("without the address: %v", err)
	}
}
