package interop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/lab"
)

// TestPostQuantumMixed runs Chive's relays under C tor's authorities, whose
// consensus has the relays' protocols, and builds circuits with and without stock
// C tor in them, each for an HTTP request. C tor must log no warning.
func TestPostQuantumMixed(t *testing.T) {
	t.Parallel()
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Relays: 2, Exits: 1, CtorAuthorities: true, CtorRelays: 1,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	}()
	defer silent(t, filepath.Join(nw.Dir, "tor"))()
	t.Run("circuits", func(t *testing.T) { pqCircuits(t, ctx, nw) })
	// Here the guard is C tor's relay: a first hop that knows nothing of it.
	for _, c := range []struct {
		name, want string
		policy     chive.PQPolicy
		count      int
	}{
		{"required", "ntor-v3/ pq768/B pq768/A", chive.PQRequireOne, 20},
		{"preferred", "ntor-v3/ pq768/B pq768/A", chive.PQPrefer, 3},
		{"off", "ntor-v3/ ntor-v3/ ntor-v3/", chive.PQOff, 3},
	} {
		t.Run(c.name, func(t *testing.T) { pqFetches(t, ctx, nw, c.policy, c.want, c.count) })
	}
	t.Run("impossible", func(t *testing.T) {
		client := pqClient(t, ctx, nw, chive.PQRequireAll)
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if conn, err := client.DialContext(ctx, "tcp", nw.Echo); err == nil {
			conn.Close()
			t.Error("a path that cannot be protected was used")
		}
	})
}

// pqCircuits builds circuits hop by hop as the policies plan them, and fetches
// over each.
func pqCircuits(t *testing.T, ctx context.Context, nw *lab.Network) {
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	network, err := netfile.Parse(nw.NetworkFile, text)
	if err != nil {
		t.Fatal(err)
	}
	c := &pqBuilder{network: network, env: &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}}
	c.chans = channel.NewManager(&channel.Config{Log: c.env.Log, Now: time.Now, Stats: new(channel.Stats)}, &channel.LinkConfig{Log: c.env.Log}, c.dial)
	defer c.chans.Close()
	dirs := dirclient.New(dirclient.Config{Network: network, Dialer: c})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- dirs.Run(run) }()
	dir, err := dirs.Wait(run)
	stop()
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name, want string
		policy     circuit.PQPolicy
		rekey      bool // carriage B wherever a hop is protected, the first too
		path       []string
		count      int
	}{
		{"mixed", "pq768/A none pq768/B", circuit.PQRequireOne, false, []string{"chiverelay0", "relay0", "chiveexit0"}, 100},
		{"mixed, rekeyed", "pq768/B none pq768/B", circuit.PQRequireOne, true, []string{"chiverelay0", "relay0", "chiveexit0"}, 100},
		{"all", "pq768/A pq768/A pq768/A", circuit.PQRequireAll, false, []string{"chiverelay0", "chiverelay1", "chiveexit0"}, 20},
	} {
		ok := 0
		for i := range k.count {
			if err := c.fetch(ctx, dir, nw, k.policy, k.rekey, k.path, k.want); err != nil {
				t.Errorf("%s, circuit %d: %v", k.name, i+1, err)
				continue
			}
			ok++
		}
		t.Logf("%s: %d of %d circuits", k.name, ok, k.count)
	}
}

// pqBuilder builds circuits with the circuit engine only.
type pqBuilder struct {
	network *netdir.Network
	env     *circuit.Env
	chans   *channel.Manager
}

func (c *pqBuilder) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// OpenDir implements dirclient.Dialer.
func (c *pqBuilder) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	a := c.network.Authorities[q.Attempt%len(c.network.Authorities)]
	t := linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts}
	ch, err := c.chans.Get(ctx, t)
	if err != nil {
		return dirclient.Stream{}, err
	}
	circ, err := circuit.Create(ctx, c.env, ch, t, circuit.HopOptions{Handshake: handshake.Fast})
	if err != nil {
		return dirclient.Stream{}, err
	}
	s, err := stream.BeginDir(circ.Last())
	return dirclient.Stream{ReadWriteCloser: s, Cache: t.RelayID}, err
}

// ReportDir implements dirclient.Dialer.
func (c *pqBuilder) ReportDir(ident.RelayID, dirclient.Purpose, error) {}

// fetch builds one circuit, checks the protection of its hops, and makes a
// request over it.
func (c *pqBuilder) fetch(ctx context.Context, dir *netdir.Directory, nw *lab.Network, policy circuit.PQPolicy, rekey bool, names []string, want string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := &circuit.Route{Options: circuit.HopOptions{Congestion: true, CGO: true}, Strict: policy.Strict()}
	for _, name := range names {
		id, err := ident.ParseRSAID(nw.Node(name).Fingerprint)
		if err != nil {
			return err
		}
		relay, ok := dir.Lookup(id)
		if !ok {
			return fmt.Errorf("%s is not in the directory", name)
		}
		r.Targets = append(r.Targets, relay.Target())
	}
	var err error
	if r.Protect, err = policy.Plan(handshake.PQ768, r.Targets); err != nil {
		return err
	}
	for i := range r.Protect {
		if rekey && !r.Protect[i].IsZero() {
			r.Protect[i].Carriage = handshake.CarriageB
		}
	}
	ch, err := c.chans.Get(ctx, r.Targets[0])
	if err != nil {
		return err
	}
	circ, err := circuit.Build(ctx, c.env, ch, r)
	if err != nil {
		return err
	}
	defer circ.Close(cell.DestroyNone, errDone)
	var got []string
	layers := map[[20]byte]bool{}
	for _, h := range circ.Hops() {
		got = append(got, h.Protection().String())
		layers[h.Info().KH] = true
		if h.Protection().IsZero() && h.Info().Handshake != "ntor-v3" {
			return fmt.Errorf("a classical hop by %s", h.Info().Handshake)
		}
	}
	if s := strings.Join(got, " "); s != want || len(layers) != len(names) {
		return fmt.Errorf("%s with %d layers, want %s", s, len(layers), want)
	}
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		return stream.Dial(ctx, circ.Last(), host, uint16(n))
	}}}
	const size = 100_000
	return fetchSum(ctx, hc, nw.URL(size), size)
}

var errDone = errors.New("the test is done with the circuit")

// pqClient is a client whose every circuit is pinned.
func pqClient(t *testing.T, ctx context.Context, nw *lab.Network, policy chive.PQPolicy) *chive.Client {
	t.Helper()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	client, err := chive.New(chive.Config{
		Network: network, DataDir: t.TempDir(), PQ: policy, Conflux: chive.SwitchOff,
		EntryNodes: []string{nw.Node("relay0").Fingerprint}, MiddleNodes: []string{nw.Node("chiverelay0").Fingerprint},
		ExitNodes: []string{nw.Node("chiveexit0").Fingerprint}, StrictNodes: true, NumEntryGuards: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// pqFetches makes count requests, each over its own circuit, and checks that all
// circuits have the wanted protection. On a loaded machine one may time out, and
// the client then builds another; but none may be refused.
func pqFetches(t *testing.T, ctx context.Context, nw *lab.Network, policy chive.PQPolicy, want string, count int) {
	t.Helper()
	client := pqClient(t, ctx, nw, policy)
	events, stop := client.Events()
	var mu sync.Mutex
	seen, slow := map[string]int{}, 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range events {
			if e, ok := e.(*chive.CircuitEvent); ok {
				mu.Lock()
				switch e.State {
				case chive.CircuitOpen:
					seen[protectionOf(e.Protection)]++
				case chive.CircuitFailed:
					if !fault.Is(e.Err, fault.Timeout) && !fault.Is(e.Err, fault.Network) {
						t.Errorf("a circuit failed: %v", e.Err)
					}
					t.Logf("another circuit is built, after: %v", e.Err)
					slow++
				}
				mu.Unlock()
			}
		}
	})
	const size = 100_000
	ok := 0
	for i := range count {
		hc := &http.Client{Transport: &http.Transport{DialContext: client.Isolated().DialContext, DisableKeepAlives: true}}
		if err := fetchSum(ctx, hc, nw.URL(size), size); err != nil {
			t.Errorf("request %d: %v", i+1, err)
			continue
		}
		ok++
	}
	for _, c := range client.Status().Open {
		if got := protectionOf(c.Hops); got != want {
			t.Errorf("status: circuit %d has %s, want %s", c.ID, got, want)
		}
	}
	stop()
	wg.Wait()
	if len(seen) != 1 || seen[want] < count || slow > count {
		t.Errorf("circuits: %v, and %d too slow, want %d of %s", seen, slow, count, want)
	}
	t.Logf("%d of %d requests, %d circuits", ok, count, seen[want])
}

func protectionOf(hops []chive.HopProtection) string {
	var out []string
	for _, h := range hops {
		if h.PQ == "" {
			out = append(out, h.Handshake+"/")
		} else {
			out = append(out, h.PQ+"/"+h.Carriage)
		}
	}
	return strings.Join(out, " ")
}

func fetchSum(ctx context.Context, hc *http.Client, url string, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, res.Body)
	if err == nil && (n != size || [32]byte(h.Sum(nil)) != target.Sum(size)) {
		err = fmt.Errorf("%d bytes with another SHA-256", n)
	}
	return err
}

// silent marks the logs of a network of C tor without a C tor client, and returns
// a check that no node has logged a warning since.
func silent(t *testing.T, dir string) func() {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*", "log"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no logs of C tor", err)
	}
	marks := map[string]int{}
	for _, l := range logs {
		b, err := os.ReadFile(l)
		if err != nil {
			t.Fatal(err)
		}
		marks[l] = len(b)
	}
	return func() {
		for l, mark := range marks {
			b, err := os.ReadFile(l)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, line := range ctor.Warnings(string(b[mark:]), 0) {
				if node := filepath.Base(filepath.Dir(l)); !strings.HasPrefix(node, ctor.Authority.String()) || !ctor.AmongAuthorities(line) {
					t.Errorf("%s: %s", node, line)
				}
			}
		}
	}
}
