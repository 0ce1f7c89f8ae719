package relay

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// TestOutbound: links, and uploads to an authority's DirPort, come from the address that the
// operator wants and not from the ORPort's; if the machine does not have it, the log says so,
// and no other one shows.
func TestOutbound(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no second loopback address: %v", err)
	} else {
		second.Close()
	}
	seen := make(chan netip.Addr, 10)
	srv := &http.Server{
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				seen <- netaddr.Of(c.RemoteAddr())
			}
		},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }),
	}
	go srv.Serve(ln)
	defer srv.Close()
	to := netaddr.OfPort(ln.Addr())
	for from, want := range map[string]string{"": "127.0.0.1", "127.0.0.2": "127.0.0.2", "192.0.2.5": "127.0.0.1"} {
		var log logged
		cfg := bridgeConfig(t)
		cfg.Bridge, cfg.Log = false, slog.New(slog.NewTextHandler(&log, nil))
		if cfg.Outbound.OR, err = netaddr.ParseSources(strings.Fields(from)); err != nil {
			t.Fatal(err)
		}
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer r.closeListeners()
		if warned := strings.Contains(log.String(), "a source address of outbound-bind-address cannot be used"); warned != (from == "192.0.2.5") {
			t.Errorf("from %q: the log says %s", from, log.String())
		}
		c, err := r.dial(within(t), to)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := <-seen; got.String() != want {
			t.Errorf("from %q: a relay sees %v", from, got)
		}
		if status, _, err := r.publisher.upload(within(t), netdir.Authority{DirPort: to}, []byte("a descriptor")); err != nil || status != http.StatusOK {
			t.Errorf("from %q: %d %v", from, status, err)
		}
		if got := <-seen; got.String() != want {
			t.Errorf("from %q: an authority's DirPort sees %v", from, got)
		}
		if from == "192.0.2.5" {
			if _, err := r.dial(within(t), netip.MustParseAddrPort("198.51.100.1:9001")); !errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Errorf("without the address: %v", err)
			}
		}
		if n := r.gate.open.Load(); n != 0 {
			t.Errorf("%d connections are still counted", n)
		}
	}
}

// TestOwnSources: an exit connects to none of the relay's source addresses either, as C tor's.
func TestOwnSources(t *testing.T) {
	cfg := bridgeConfig(t)
	a, b, c := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("192.0.2.6")
	cfg.Outbound.OR, cfg.Outbound.PT = netaddr.Sources{V4: a, V6: b}, netaddr.Sources{V4: netip.MustParseAddr("192.0.2.7")}
	cfg.Exit = &exit.Config{Source: netaddr.Sources{V4: c, V6: b}}
	if got := cfg.Addresses(); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("127.0.0.1"), a, b, netip.MustParseAddr("192.0.2.7"), c}) {
		t.Error(got)
	}
}
