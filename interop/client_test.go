package interop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// proxy is a running client under test.
type proxy struct {
	addr string // its SOCKS port
	pid  int
	stop func() error // shuts it down cleanly: it may save its state
}

// startOptions says how to start a client.
type startOptions struct {
	dir string // its data directory; a client with the same one continues with its state
	// pin names the guard, the middle and the exit of every circuit; nil
	// leaves a position free. Empty: no pinning.
	pin []*ctor.Node
	// oneGuard restricts a client to one guard, even if it would use a second one
	// for conflux.
	oneGuard bool
}

// subject is a kind of client.
type subject interface {
	name() string
	// quirks returns the known limits of the client.
	quirks() quirks
	// start returns when the client says that traffic can flow.
	start(ctx context.Context, nw *ctor.Network, o startOptions) (*proxy, error)
}

// quirks are the known differences of another project's client, each with the
// check that allows for it. Chive's own client has one, which is C tor's.
type quirks struct {
	noHalfClose   bool // it ends a stream in both directions at once
	noPins        bool // it has no option to choose relays
	noNameErrors  bool // it answers a name that does not exist with a general failure
	vagueRefusals bool // it answers with a general failure when it finds no exit to ask
	hopsExits     bool // a stream may prefer a conflux set to the circuit that its token used before
	keepsBadCache bool // it cannot start with a cache of another network, or a truncated one
	manyGuards    bool // it always spreads its circuits over its primary guards
	seeksExitLong bool // for two minutes it continues to look for an exit that accepts the address
}

// torClient is C tor's own client.
type torClient struct{}

func (torClient) quirks() quirks {
	return quirks{noHalfClose: true, vagueRefusals: true, hopsExits: true, seeksExitLong: true}
}

func (torClient) name() string { return "tor" }

func (torClient) start(ctx context.Context, nw *ctor.Network, o startOptions) (*proxy, error) {
	var extra []string
	for i, n := range o.pin {
		if n != nil {
			extra = append(extra, fmt.Sprintf("%sNodes $%s", []string{"Entry", "Middle", "Exit"}[i], n.ID.RSA))
		}
	}
	if len(o.pin) > 0 {
		// A second leg would need a second path.
		extra = append(extra, "StrictNodes 1", "ConfluxEnabled 0")
	}
	if o.oneGuard {
		extra = append(extra, "NumEntryGuards 1", "ConfluxEnabled 0")
	}
	n, err := nw.AddClient(ctx, o.dir, extra...)
	if err != nil {
		return nil, err
	}
	if err := n.AwaitBootstrap(ctx); err != nil {
		n.Kill()
		return nil, err
	}
	return &proxy{n.SOCKS.String(), n.PID(), n.Stop}, nil
}

// patience bounds waits on a loaded machine. A test that succeeds does not wait
// so long.
const patience = 3 * time.Minute

// bounded returns a context that ends with the test or after d.
func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// start starts a client for one test and stops it after.
func start(t *testing.T, s subject, nw *ctor.Network, o startOptions) *proxy {
	t.Helper()
	began := time.Now()
	p, err := s.start(bounded(t, patience), nw, o)
	if err != nil {
		t.Fatalf("%s does not start: %v", s.name(), err)
	}
	t.Logf("%s started in %v", s.name(), time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			logTail(t, filepath.Join(o.dir, "output"))
		}
	})
	return p
}

// logTail shows the end of what a client has printed, if it prints into a file.
func logTail(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Error(err)
	}
	const most = 16 << 10
	t.Logf("%s", b[max(0, len(b)-most):])
}

func (p *proxy) dialer() socksclient.Dialer { return socksclient.Dialer{Proxy: p.addr} }

// isolated returns a dialer with an isolation token.
func (p *proxy) isolated(token string) socksclient.Dialer {
	return socksclient.Dialer{Proxy: p.addr, User: token, Pass: token}
}

// firstHops returns the relays to which the client has connections, from the
// kernel's list.
func (p *proxy) firstHops(t *testing.T, nw *ctor.Network) []*ctor.Node {
	t.Helper()
	conns, err := connsOf(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	var out []*ctor.Node
	for _, n := range nw.Routers() {
		if slices.ContainsFunc(conns, func(c conn) bool { return c.remote == n.OR || n.OR6.IsValid() && c.remote == n.OR6 }) {
			out = append(out, n)
		}
	}
	return out
}

// exitOf returns the exit whose process holds the other end of a connection
// that the target sees coming from the given address: the connection must still
// be open.
func exitOf(t *testing.T, nw *ctor.Network, from netip.AddrPort) *ctor.Node {
	t.Helper()
	for _, n := range nw.ByRole(ctor.Exit) {
		conns, err := connsOf(n.PID())
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(conns, func(c conn) bool { return c.local == from }) {
			return n
		}
	}
	t.Fatalf("no exit has the connection from %v", from)
	return nil
}

func names(nodes []*ctor.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}
