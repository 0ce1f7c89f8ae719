package interop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

func testResolve(t *testing.T, s subject, p *proxy) {
	ctx := bounded(t, patience)
	if a, err := p.dialer().Resolve(ctx, target.Name4); err != nil || a != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("RESOLVE %s: %v, %v", target.Name4, a, err)
	}
	if n, err := p.dialer().ResolvePTR(ctx, target.Reverse); err != nil || n != target.Name {
		t.Errorf("RESOLVE_PTR %v: %q, %v", target.Reverse, n, err)
	}
	var r socksclient.Reply
	if a, err := p.dialer().Resolve(ctx, "nowhere.test"); !errors.As(err, &r) {
		t.Errorf("RESOLVE of a name that does not exist: %v, %v", a, err)
	} else if !slices.Contains(unknownName(s), r) {
		t.Errorf("RESOLVE of a name that does not exist: %v, want host unreachable", err)
	}
	if err := echo(ctx, p.dialer(), shared.target.NameAddr(target.Echo, target.Name4), "by name"); err != nil {
		t.Errorf("CONNECT by name: %v", err)
	}
}

func testIPv6(t *testing.T, p *proxy) {
	own, err := target.Start() // the shared one has other tests' connections, too
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	addr := own.Addr6(target.Echo)
	if addr == "" {
		t.Skip("SKIPPED: this machine has no IPv6 loopback")
	}
	ctx := bounded(t, patience)
	if err := echo(ctx, p.dialer(), addr, "to ::1"); err != nil {
		t.Errorf("CONNECT to an IPv6 literal: %v", err)
	}
	if err := echo(ctx, p.dialer(), own.NameAddr(target.Echo, target.Name6), "to a name with AAAA only"); err != nil {
		t.Errorf("CONNECT to a name with an IPv6 address only: %v", err)
	}
	conns := own.Conns(time.Time{})
	if len(conns) != 2 {
		t.Errorf("the target saw %d connections", len(conns))
	}
	for _, c := range conns {
		if !c.From.Addr().Is6() {
			t.Errorf("the target saw %v", c.From.Addr())
		}
	}
}

// testRefusals: for an unreachable destination the client answers with the code
// of the reason, and continues to work.
func testRefusals(t *testing.T, s subject, p *proxy) {
	ctx := bounded(t, patience)
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	for _, c := range []struct {
		what, addr string
		want       []socksclient.Reply
	}{
		// On loopback C tor's exits themselves say "misc" instead of "refused".
		{"a closed port", closed, []socksclient.Reply{socksclient.Refused, socksclient.GeneralFailure}},
		{"a name that does not exist", "nowhere.test:80", unknownName(s)},
		{"a port that every exit refuses", net.JoinHostPort("127.0.0.1", strconv.Itoa(refusedPort)), refusedByPolicy(s)},
	} {
		conn, err := p.dialer().DialContext(ctx, "tcp", c.addr)
		if err == nil {
			conn.Close()
		}
		var r socksclient.Reply
		if !errors.As(err, &r) || !slices.Contains(c.want, r) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		t.Logf("%s: %v", c.what, err)
	}
	if err := echo(ctx, p.dialer(), shared.target.Addr(target.Echo), "still here"); err != nil {
		t.Error(err)
	}
}

// testExitPolicy asks for an address that every exit's policy refuses. Only the
// exits can say so, because clients know only the ports in policies. Afterwards
// the client may consider every exit unusable, so the test does not use it again.
func testExitPolicy(t *testing.T, s subject, nw *ctor.Network) {
	if s.quirks().seeksExitLong {
		t.Skip(s.name(), "goes on looking for another exit for two minutes")
	}
	p := start(t, s, nw, startOptions{dir: t.TempDir()})
	c, err := p.dialer().DialContext(bounded(t, patience), "tcp", refusedAddr+":80")
	if err == nil {
		c.Close()
	}
	var r socksclient.Reply
	if !errors.As(err, &r) || !slices.Contains(refusedByPolicy(s), r) {
		t.Errorf("%v, want one of %v", err, refusedByPolicy(s))
	}
	t.Log(err)
}

// unknownName are the codes for a name that does not exist.
func unknownName(s subject) []socksclient.Reply {
	if s.quirks().noNameErrors {
		return []socksclient.Reply{socksclient.GeneralFailure}
	}
	return []socksclient.Reply{socksclient.HostUnreachable}
}

// refusedByPolicy are the codes for a refusal by an exit policy.
func refusedByPolicy(s subject) []socksclient.Reply {
	if s.quirks().vagueRefusals {
		return []socksclient.Reply{socksclient.NotAllowed, socksclient.GeneralFailure}
	}
	return []socksclient.Reply{socksclient.NotAllowed}
}
