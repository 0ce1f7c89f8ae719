package lab_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// shortest is the shortest voting interval.
const shortest = 10 * time.Second

// add adds a node and waits until clients can use it.
func add(t *testing.T, ctx context.Context, nw *lab.Network, role lab.Role) *lab.Node {
	t.Helper()
	began := time.Now()
	n, err := nw.Add(ctx, role)
	if err != nil {
		t.Fatal(err)
	}
	if nw.Node(n.Name) != n || n.Role != role || n.Program != "chive" {
		t.Errorf("the network has no node %+v", n)
	}
	if err := nw.WaitListed(ctx, n); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: usable after %v", n.Name, time.Since(began).Round(time.Millisecond))
	return n
}

// carried fetches until a circuit has had the relay in it.
func carried(t *testing.T, ctx context.Context, nw *lab.Network, n *lab.Node) {
	t.Helper()
	for i := 1; ; i++ {
		f, err := nw.Fetch(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range f.Path {
			if h == n {
				t.Logf("%s is in the path of fetch %d", n.Name, i)
				return
			}
		}
	}
}

// TestAdd adds a node of each role to a running network: relays carry circuits, and the
// others do what they are for.
func TestAdd(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, VotingInterval: shortest})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	clientIsBehind(t, ctx, nw)
	useAdded(t, ctx, nw, lab.Client, lab.Relay, lab.Exit, lab.Bridge, lab.OnionService)
	last := nw.Nodes()[len(nw.Nodes())-1]
	if err := nw.Close(); err != nil {
		t.Fatal(err)
	}
	if last.Client().Err() != nil || !errors.Is(last.Client().Wait(ctx), chive.ErrClosed) {
		t.Error("Close leaves an added node's client")
	}
	if n, err := nw.Add(ctx, lab.Relay); !fault.Is(err, fault.Closed) {
		t.Errorf("after Close: %+v, %v", n, err)
	}
}

// useAdded adds nodes and uses each.
func useAdded(t *testing.T, ctx context.Context, nw *lab.Network, roles ...lab.Role) {
	t.Helper()
	for _, role := range roles {
		n := add(t, ctx, nw, role)
		switch role {
		case lab.Relay, lab.Exit:
			for _, o := range nw.Nodes() {
				if c := o.Client(); c != nil && !c.Lists(n.Fingerprint) {
					t.Errorf("%s does not know %s", o.Name, n.Name)
				}
			}
			carried(t, ctx, nw, n)
		case lab.Bridge:
			var text strings.Builder
			if err := n.Relay().WriteMetrics(&text); err != nil || strings.Contains(text.String(), "\nchive_relay_listed ") || !strings.Contains(text.String(), "\nchive_relay_reachable 1\n") {
				t.Errorf("the metrics of a bridge: %v\n%s", err, text.String())
			}
			network, err := chive.LoadNetwork(nw.NetworkFile)
			if err != nil {
				t.Fatal(err)
			}
			c, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir(), Bridges: n.Bridge})
			if err != nil {
				t.Fatal(err)
			}
			echo(t, ctx, c.DialContext, nw.Echo)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		case lab.Client:
			if n.SOCKS == nw.SOCKS {
				t.Errorf("its SOCKS port is the first client's")
			}
			echo(t, ctx, socksclient.Dialer{Proxy: n.SOCKS}.DialContext, nw.Echo)
		case lab.OnionService:
			fetchOnion(t, ctx, nw, n)
		}
	}
}

// clientIsBehind waits for a relay while the consensus lists it, and the client has an
// older one: relays fetch earlier than clients.
func clientIsBehind(t *testing.T, ctx context.Context, nw *lab.Network) {
	t.Helper()
	n, err := nw.Add(ctx, lab.Relay)
	if err != nil {
		t.Fatal(err)
	}
	for !n.Relay().Status().Listed {
		if ctx.Err() != nil {
			t.Fatal("it is never listed")
		}
		time.Sleep(time.Millisecond) // there is no event of it
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var text strings.Builder
	if err := n.Relay().WriteMetrics(&text); err != nil || !strings.Contains(text.String(), "\nchive_relay_listed 1\n") {
		t.Errorf("the metrics of a listed relay: %v\n%s", err, text.String())
	}
	if err := nw.WaitListed(ended, n); err == nil {
		t.Log("this machine is slow: the client is not behind any more")
	} else if !strings.Contains(err.Error(), "lists it, and a client has that of ") {
		t.Error(err)
	}
}

// fetchOnion fetches from an onion service what the target's web server has.
func fetchOnion(t *testing.T, ctx context.Context, nw *lab.Network, n *lab.Node) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Onion+"/bytes/1000", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return socksclient.Dialer{Proxy: nw.SOCKS}.DialContext(ctx, network, addr)
	}}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, res.Body); err != nil || [32]byte(h.Sum(nil)) != target.Sum(1000) {
		t.Errorf("from the onion service: %x, %v", h.Sum(nil), err)
	}
}

// TestAddUnderTor adds relays to a network in which C tor's authorities decide, and whose
// voting interval is the least that they accept.
func TestAddUnderTor(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw := start(t, lab.Options{Relays: 2, Exits: 1, CtorAuthorities: true, VotingInterval: shortest})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	useAdded(t, ctx, nw, lab.Relay, lab.OnionService)
	n := nw.Node("chiverelay2").Relay()
	for !n.Status().Listed { // the clients may have a consensus earlier than the relay has
		if ctx.Err() != nil {
			t.Fatalf("the relay does not learn that it is listed: %+v", n.Status())
		}
		time.Sleep(time.Millisecond) // there is no event of it
	}
	if s := n.Status(); s.Weight != 10_000 {
		t.Errorf("C tor's authorities give the relay the weight %d, and others 10000", s.Weight)
	}
}

// TestAddRefuses: what cannot be added is refused, and the error says why.
func TestAddRefuses(t *testing.T) {
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	for role, want := range map[lab.Role]string{lab.Authority: "from the start", "guard": `"guard" is no role`} {
		if n, err := nw.Add(t.Context(), role); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", role, n, err)
		}
	}
	for fp, want := range map[string]bool{nw.Node("chiverelay0").Fingerprint: true, strings.Repeat("0", 40): false, "no fingerprint": false} {
		if nw.Client.Lists(fp) != want {
			t.Errorf("the client lists %q: %v", fp, !want)
		}
	}
	if err := nw.WaitListed(t.Context(), nw.Node("authority0")); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}

// TestNotListed: whoever waits in vain for a node learns what is missing.
func TestNotListed(t *testing.T) {
	var elsewhere *chive.Network // in which nobody is at the authority's ports
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, VotingInterval: 24 * time.Hour, Relay: func(name string, cfg *relay.Config) {
		if name == "chiverelay2" {
			cfg.Network = elsewhere
		}
	}})
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere, err = chive.ParseNetwork(regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAll(text, []byte("127.0.0.1:1"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waitInVain := func(accepted int, want string) {
		t.Helper()
		n, err := nw.Add(ctx, lab.Relay)
		if err != nil {
			t.Fatal(err)
		}
		for n.Relay().Status().Accepted < accepted {
			if ctx.Err() != nil {
				t.Fatal("no authority accepted the descriptor")
			}
			time.Sleep(time.Millisecond) // there is no event of it
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := nw.WaitListed(ended, n); !fault.Is(err, fault.Timeout) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), n.Name) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	waitInVain(0, "no descriptor of it has authority0 (404")
	waitInVain(1, "newest consensus, of ")
}
