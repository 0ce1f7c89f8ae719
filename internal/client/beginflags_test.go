package client

import (
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestBeginFlags: a BEGIN speaks of IPv6 to those exits only that let its port out over IPv6, and
// prefers a family only where both are wanted. C tor's connection_ap_get_begincell_flags is the
// reference.
func TestBeginFlags(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 200, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	four, six := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	var both, only4 netdir.Relay
	for r := range d.All() {
		if path.Allows(r, path.Dest{Addr: four, Port: 443}) {
			if path.Allows(r, path.Dest{Addr: six, Port: 443}) {
				both = r
			} else {
				only4 = r
			}
		}
	}
	if both.IsZero() || only4.IsZero() {
		t.Fatal("the directory has no such exits")
	}
	c, l := withLiars(t, Config{Network: netdir.Public()})
	for _, x := range []struct {
		exit   netdir.Relay
		family stream.Family
		want   cell.BeginFlags
	}{
		{only4, stream.AnyFamily, 0}, {only4, stream.IPv4Only, 0}, {only4, stream.IPv6First, 0},
		{both, stream.AnyFamily, 1}, {both, stream.IPv4Only, 0}, {both, stream.IPv6First, 5}, {both, stream.IPv6Only, 3},
	} {
		l.open(x.exit)
		c.pool.Load().NewIdentity() // circuits keep the exit that they were built to
		addr := netip.MustParseAddr("203.0.114.7")
		if x.family == stream.IPv6Only {
			addr = netip.MustParseAddr("2001:4860::1")
		}
		l.say(cell.RelayConnected, (&cell.Connected{Addr: addr, TTL: 60}).Append(nil))
		conn, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 443, Family: x.family})
		if err != nil {
			t.Fatalf("%+v: %v", x, err)
		}
		l.mu.Lock()
		b, err := cell.ParseBegin(l.heard)
		n := len(l.heard)
		l.mu.Unlock()
		conn.Close()
		if err != nil || b.Flags != x.want {
			t.Errorf("IPv6 at the exit %v, family %d: flags %03b, %v", x.exit == both, x.family, b.Flags, err)
		}
		if end := len("example.com:443") + 1; x.want == 0 && n != end {
			t.Errorf("%d bytes of BEGIN without flags, not %d", n, end)
		}
	}
}
