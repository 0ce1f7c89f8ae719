package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// isolated makes a client of a network whose relays cannot be reached.
func isolated(t *testing.T, n *netdir.Network, dial func(context.Context, netip.AddrPort) (net.Conn, error)) *Client {
	t.Helper()
	c, err := New(Config{Network: n, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func refuse(context.Context, netip.AddrPort) (net.Conn, error) {
	return nil, errors.New("refused by the test")
}

// TestRefusedDestinations: what no exit may be asked for fails at once, before
// there is a directory.
func TestRefusedDestinations(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	for _, host := range []string{"a.b.exit", "localhost", "127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if _, err := c.Dial(ctx, Request{Host: host, Port: 80}); !fault.Is(err, fault.Refused) {
			t.Errorf("dial %s: %v", host, err)
		}
		cancel()
	}
	for _, host := range []string{"x.onion", "X.ONION.", "onion", "a.onion.", "a.onion...", "onion..."} {
		if _, err := c.Dial(t.Context(), Request{Host: host, Port: 80}); !fault.Is(err, fault.Config) || !errors.Is(err, hsclient.ErrAddress) || strings.Contains(err.Error(), strings.TrimSuffix(host, "onion")+"onion") && host != "onion" {
			t.Errorf("dial %s: %v", host, err)
		}
		if _, err := c.Resolve(t.Context(), Request{Host: host}); !fault.Is(err, fault.Refused) {
			t.Errorf("resolve %s: %v", host, err)
		}
		if _, err := c.dest(Request{Host: host, Port: 80}); !fault.Is(err, fault.Refused) {
			t.Errorf("%s may reach an exit: %v", host, err)
		}
	}
	for _, host := range []string{"", "x.onion/", "x.onion\x00", "a b", "example.com:80", "é.example", "a..b", strings.Repeat("a", 64) + ".example"} {
		if _, err := c.dest(Request{Host: host, Port: 80}); !fault.Is(err, fault.Config) {
			t.Errorf("%q may reach an exit: %v", host, err)
		}
	}
	for host, ok := range map[string]bool{"example.com": true, "_x.example.": true, "192.0.2.1": true, "2001:db8::1": true} {
		if _, err := c.dest(Request{Host: host, Port: 80}); (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestNothingReachable: a client without a network says so, and stops.
func TestNothingReachable(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	for end := time.Now().Add(time.Minute); !strings.Contains(c.Bootstrap().Stage, "consensus"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", c.Bootstrap())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx); !fault.Is(err, fault.Timeout) || !strings.Contains(err.Error(), "consensus") {
		t.Fatalf("wait: %v", err)
	}
	if _, err := c.Dial(ctx, Request{Host: "example.com", Port: 80}); !fault.Is(err, fault.Directory) {
		t.Fatalf("dial: %v", err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(c.Bootstrap().Problem, "no relay answers since"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", c.Bootstrap())
		}
	}
	if b := c.Bootstrap(); b.Ready || b.Percent >= 78 {
		t.Fatalf("%+v", b)
	}
}

// TestPrivateRelays: the public network has no relay on a private address,
// whatever its directory says.
func TestPrivateRelays(t *testing.T) {
	dialled := make(chan netip.AddrPort, 1)
	dial := func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
		select {
		case dialled <- a:
		default:
		}
		return nil, errors.New("refused by the test")
	}
	n := &netdir.Network{Name: "t", Authorities: []netdir.Authority{{
		Nickname: "a", V3Ident: ident.RSAID{1}, RSA: ident.RSAID{2}, ORPorts: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")},
	}}}
	strict := isolated(t, n, dial)
	// To connect to 0.0.0.0 or :: is to connect to this machine.
	for _, a := range []string{"127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "10.0.0.1", "192.168.1.1", "169.254.169.254", "fd00::1", "fe80::1", "::1", "255.255.255.255"} {
		if _, err := strict.dial(context.Background(), netip.AddrPortFrom(netip.MustParseAddr(a), 9001)); !fault.Is(err, fault.Directory) {
			t.Error(a, err)
		}
	}
	select {
	case a := <-dialled:
		t.Fatal("dialled", a)
	default:
	}
	lab := *n
	lab.Testing.AllowPrivateAddresses = true
	if _, err := isolated(t, &lab, dial).dial(context.Background(), n.Authorities[0].ORPorts[0]); fault.Is(err, fault.Directory) {
		t.Fatal(err)
	}
	<-dialled
}

// TestFallbacksBeforeAuthorities: authorities are asked when nobody else is
// left, and caches that failed are passed over for a while.
func TestFallbacksBeforeAuthorities(t *testing.T) {
	addr := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}
	n := &netdir.Network{
		Name:        "t",
		Authorities: []netdir.Authority{{Nickname: "a", V3Ident: ident.RSAID{1}, RSA: ident.RSAID{2}, ORPorts: addr}},
		Fallbacks:   []netdir.Fallback{{RSA: ident.RSAID{3}, ORPorts: addr}, {RSA: ident.RSAID{4}, ORPorts: addr}},
	}
	c := isolated(t, n, refuse)
	k := newCaches(c)
	pick := func(avoid ...ident.RelayID) ident.RSAID {
		t.Helper()
		target, _, err := k.fallback(avoid, false)
		if err != nil {
			t.Fatal(err)
		}
		return target.RSA
	}
	for range 50 {
		if id := pick(); id == (ident.RSAID{2}) {
			t.Fatal("an authority was asked first")
		}
	}
	for range 50 { // when one is asked for, it comes first
		if target, use, err := k.choose(t.Context(), dirclient.Query{Authority: true}); err != nil || use != nil || target.RSA != (ident.RSAID{2}) {
			t.Fatal(target.RSA, err)
		}
	}
	k.fail(ident.RSAID{3})
	if id := pick(); id != (ident.RSAID{4}) {
		t.Fatal(id)
	}
	if id := pick(ident.RelayID{RSA: ident.RSAID{4}}); id != (ident.RSAID{2}) {
		t.Fatal(id)
	}
	k.fail(ident.RSAID{2})
	k.fail(ident.RSAID{4})
	if id := pick(); id.IsZero() {
		t.Fatal("when all failed one of them is tried again")
	}
	if _, _, err := newCaches(isolated(t, &netdir.Network{Name: "e", Authorities: []netdir.Authority{{Nickname: "a"}}}, refuse)).fallback(nil, false); !fault.Is(err, fault.Config) {
		t.Fatal(err)
	}
}

// TestGiveUp: a client that cannot go on says so to everybody who waits for it.
func TestGiveUp(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan Bootstrap, 100)
	c, err := New(Config{Network: made.Network, Dial: refuse, Hooks: Hooks{Bootstrap: func(b Bootstrap) { told <- b }}})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait(t.Context()) }()
	why := fault.New(fault.Refused, "the network requires Relay=99")
	c.giveUp(why)
	<-c.Done()
	if _, err := c.Dial(t.Context(), Request{Host: "example.com", Port: 80}); !errors.Is(err, why) || c.Err() != why {
		t.Errorf("a stream: %v; the client: %v", err, c.Err())
	}
	if err := <-waited; err != why {
		t.Errorf("Wait: %v", err)
	}
	for b := range told {
		if b.Problem == why.Error() {
			break
		}
	}
	if err := c.Close(); err != nil || c.Err() != why {
		t.Errorf("Close: %v; the client: %v", err, c.Err())
	}
}

// TestCachesThatLackWhatIsNeeded: when the directory guards have had their turn,
// a fallback is asked, and no further guard.
func TestCachesThatLackWhatIsNeeded(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	n := *made.Network
	n.Fallbacks = []netdir.Fallback{{RSA: ident.RSAID{3}, ORPorts: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}}}
	c := isolated(t, &n, refuse)
	c.newDirectory(d)
	k := newCaches(c)
	var avoid []ident.RelayID
	for i := range dirclient.Attempts + 1 {
		target, use, err := k.choose(t.Context(), dirclient.Query{Purpose: dirclient.Microdescriptors, Directory: d, Avoid: avoid, Attempt: i})
		if err != nil {
			t.Fatal(err)
		}
		if guard := use != nil; guard != (i < dirclient.Attempts) || guard == (target.RSA == ident.RSAID{3}) {
			t.Errorf("attempt %d: a guard: %v", i, guard)
		}
		if use != nil {
			use.Cancelled(time.Now())
		}
		avoid = append(avoid, target.RelayID)
	}
}
