package appearance

import (
	"net"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/netaddr"
)

// TestSocketTable: the kernel's table has connections of both families.
func TestSocketTable(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		if at == "[::1]:0" && !ctor.HasIPv6() {
			continue
		}
		ln, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		rows, err := socketTable()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, s := range rows {
			found = found || s.local == netaddr.OfPort(c.LocalAddr()) && s.remote == netaddr.OfPort(c.RemoteAddr())
		}
		if !found {
			t.Errorf("%s: the connection from %v is not there", at, c.LocalAddr())
		}
	}
}
