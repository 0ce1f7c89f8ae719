package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestAssumeReachable: a relay whose addresses cannot be reached publishes if the consensus
// says so, for all addresses or those by IPv6, and does not say that they can be reached.
func TestAssumeReachable(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 9, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]bool{"": false, " assume-reachable=1": true, " assume-reachable-ipv6=1": false, " assume-reachable=0 assume-reachable-ipv6=1": false} {
		doc := *made
		doc.Consensus = bytes.Replace(made.Consensus, []byte("\nparams"), []byte("\nparams"+params), 1)
		d, err := doc.Directory()
		if err != nil {
			t.Fatal(err)
		}
		if six := assumeReachable(d, netip.MustParseAddr("2001:db8::1")); six != strings.Contains(params, "=1") {
			t.Errorf("%q: by IPv6: %v", params, six)
		}
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			cfg := Config{Nickname: "relay", DataDir: dir, Network: &netdir.Network{},
				Advertise: []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::1]:9001"), netip.MustParseAddrPort("192.0.2.1:9001")}}
			r := &Relay{cfg: cfg, log: slog.New(slog.NewTextHandler(&log, nil)), keys: load(t, dir, time.Now()), env: &circuit.Env{Log: quiet, Now: time.Now}}
			r.live.Store(&live{cfg: cfg})
			r.channels = channel.NewManager(&channel.Config{Log: quiet, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				<-ctx.Done()
				return nil, fault.New(fault.Timeout, "no answer")
			})
			defer r.channels.Close()
			if err := r.reachIn(t.Context(), d); (err == nil) != want {
				t.Errorf("%q: %v", params, err)
			}
			if strings.Contains(log.String(), "can be reached") || strings.Contains(log.String(), "could not") != want {
				t.Errorf("%q: %s", params, &log)
			}
		})
	}
}

// TestTestersHaveNoLink: a relay behind a firewall is not reached over a link that it has
// opened itself. The relays of a test are different ones, and where there is a link to all, any
// will do.
func TestTestersHaveNoLink(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 9, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{channels: channel.NewManager(&channel.Config{Log: quiet, Now: time.Now}, &channel.LinkConfig{}, nil)}
	defer r.channels.Close()
	self := linkspec.Target{Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9001")}}
	left := 0
	for range d.All() {
		left++
	}
	for linked := map[ident.RSAID]bool{}; ; left-- {
		for range 50 {
			first, second, err := r.testers(d, self)
			if err != nil || first.RSA() == second.RSA() || linked[second.RSA()] && left > 0 {
				t.Fatalf("with links to %d relays: %v, %v: %v", len(linked), first, second, err)
			}
		}
		if left == 0 {
			break
		}
		_, second, _ := r.testers(d, self)
		near, far := net.Pipe()
		defer far.Close()
		l := &channel.Link{Conn: tls.Client(near, &tls.Config{InsecureSkipVerify: true}), Initiator: true, Peer: second.ID(), PeerAuthenticated: true}
		if _, err := r.channels.Adopt(l); err != nil {
			t.Fatal(err)
		}
		linked[second.RSA()] = true
	}
}
