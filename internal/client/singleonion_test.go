package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestOneUse: a client is anonymous or hosts services whose host can be found, and never
// both.
func TestOneUse(t *testing.T) {
	key := func() *hsservice.Key {
		k, err := hsservice.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	listen := func(c *Client, single bool) error {
		s, err := c.Listen(hsservice.Config{Key: key(), Single: single})
		if err == nil {
			s.Close()
		}
		return err
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // what waits for the network ends at once
	uses := map[string]func(*Client) error{
		"service": func(c *Client) error { return listen(c, false) },
		"dial":    func(c *Client) error { _, err := c.Dial(gone, Request{Host: "example.com", Port: 80}); return err },
		"onion": func(c *Client) error {
			_, err := c.Dial(gone, Request{Host: key().Address(), Port: 80})
			return err
		},
		"resolve": func(c *Client) error { _, err := c.Resolve(gone, Request{Host: "example.com"}); return err },
	}
	for name, use := range uses {
		for _, singleFirst := range []bool{true, false} {
			c, err := New(Config{Network: netdir.Public(), Dial: refuse})
			if err != nil {
				t.Fatal(err)
			}
			if singleFirst {
				if err := listen(c, true); err != nil {
					t.Error(err)
				}
				if err := use(c); !fault.Is(err, fault.Config) {
					t.Errorf("%s after a single onion service: %v", name, err)
				}
				if err := listen(c, true); err != nil {
					t.Error("a second one:", err)
				}
			} else {
				if err := use(c); fault.Is(err, fault.Config) {
					t.Errorf("%s: %v", name, err)
				}
				if err := listen(c, true); !fault.Is(err, fault.Config) {
					t.Errorf("a single onion service after %s: %v", name, err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDirectAddresses: the address to which a single onion service connects is the
// consensus's, and never one that a client names.
func TestDirectAddresses(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 20})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	var relay netdir.Relay
	for r := range d.All() {
		relay = r
	}
	good := relay.Target()
	evil := netip.MustParseAddrPort("192.0.2.66:6666")
	for name, c := range map[string]struct {
		change func(*linkspec.Target)
		listed bool
	}{
		"another address": {func(t *linkspec.Target) { t.Addrs = []netip.AddrPort{evil} }, true},
		"another RSA identity": {func(t *linkspec.Target) {
			t.RSA, t.Addrs = ident.RSAID{1}, []netip.AddrPort{evil}
		}, false},
		"another Ed25519 identity": {func(t *linkspec.Target) { t.Ed = ident.Ed25519ID{1} }, false},
		"no Ed25519 identity":      {func(t *linkspec.Target) { t.Ed = ident.Ed25519ID{} }, false},
	} {
		target := good
		c.change(&target)
		r, err := listed(d, target)
		if c.listed != (err == nil) || err != nil && !fault.Is(err, fault.Refused) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && r.Target().Addrs[0] == evil {
			t.Errorf("%s: the client's address is used", name)
		}
	}
	if _, err := listed(nil, good); err == nil {
		t.Error("without a directory")
	}
	var dialled atomic.Int32
	c, err := New(Config{Network: netdir.Public(), Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
		if a == evil {
			dialled.Add(1)
		}
		return nil, errors.New("no network")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	target := good
	target.Addrs = []netip.AddrPort{evil}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := singleServiceNetwork{serviceNetwork{c}}
	if _, err := s.direct(ctx, nil, target); !fault.Is(err, fault.Refused) {
		t.Error("without a directory:", err)
	}
	if dialled.Load() != 0 {
		t.Error("the service connected to an address that a client named")
	}
}

// TestDirectProtection: if every hop, or one hop, must have post-quantum protection, a
// single onion service does not connect to a relay that cannot give it to the only hop.
func TestDirectProtection(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 20}) // stock relays
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	var target linkspec.Target
	for r := range d.All() {
		target = r.Target()
	}
	for policy, demanded := range map[circuit.PQPolicy]bool{
		circuit.PQOff: false, circuit.PQPrefer: false, circuit.PQRequireOne: true, circuit.PQRequireAll: true,
	} {
		var dialled atomic.Int32
		c, err := New(Config{Network: netdir.Public(), PQ: policy, Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
			if slices.Contains(target.Addrs, a) {
				dialled.Add(1)
			}
			return nil, errors.New("no network")
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = singleServiceNetwork{serviceNetwork{c}}.direct(t.Context(), d, target)
		if fault.Is(err, fault.Refused) != demanded || (dialled.Load() == 0) != demanded {
			t.Errorf("policy %v: %d connections, %v", policy, dialled.Load(), err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSinglePoints: the introduction points of a single onion service are no vanguards,
// and have what an introduction point needs.
func TestSinglePoints(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 150})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	c := chooser(t, t.TempDir(), guard.VanguardsFull, d)
	never := path.Capability{Name: "what one relay has", Has: func(netdir.Relay) bool { return false }}
	single := singleServiceNetwork{serviceNetwork{c}}
	relays := map[ident.RSAID]bool{}
	for range 100 {
		point, err := single.point(d, path.Spec{Hops: 4, Stable: true, NeedExit: []path.Capability{path.Introduction}}, d.ValidAfter())
		if err != nil {
			t.Fatal(err)
		}
		relays[point.RSA] = true
	}
	if len(relays) < 20 { // a layer has eight
		t.Errorf("a hundred introduction points are %d relays", len(relays))
	}
	if _, err := single.point(d, path.Spec{Hops: 4, NeedExit: []path.Capability{never}}, d.ValidAfter()); !errors.Is(err, path.ErrNone) {
		t.Errorf("a relay that lacks what it needs: %v", err)
	}
}

// TestFailedSingle: a service that could not begin does not bind its client, as one that
// did begin does.
func TestFailedSingle(t *testing.T) {
	k, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, begun := range []bool{false, true} {
		c := isolated(t, netdir.Public(), refuse)
		if begun {
			s, err := c.Listen(hsservice.Config{Key: k, Single: true})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
		if _, err := c.Listen(hsservice.Config{Single: true}); err == nil {
			t.Fatal("a service without a key")
		}
		s, err := c.Listen(hsservice.Config{Key: k})
		if (err != nil) != begun {
			t.Errorf("begun before: %v; an anonymous one: %v", begun, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// TestNeverAnonymous: a client that is told so opens no stream, also after a service whose host can be found did not begin.
func TestNeverAnonymous(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	c.NeverAnonymous()
	dial := func() {
		t.Helper()
		if _, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 80}); !fault.Is(err, fault.Config) {
			t.Errorf("a stream: %v", err)
		}
	}
	dial()
	key, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listen(hsservice.Config{Key: key, Single: true, Live: hsservice.Live{IntroductionPoints: 99}}); err == nil {
		t.Error("a service with 99 introduction points")
	}
	dial()
}
