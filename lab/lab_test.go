package lab_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// patience bounds waits on a loaded machine. A test that succeeds does not wait
// so long.
const patience = 5 * time.Minute

// TestNetwork runs a network of Chive's nodes only, in this process.
func TestNetwork(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 4, Exits: 1})
	use(t, nw)
	for _, n := range nw.Nodes() {
		if n.Program != "chive" || n.PID() != 0 {
			t.Errorf("%+v runs elsewhere", n)
		}
	}

	t.Run("isolation", func(t *testing.T) { isolation(t, nw) })
	t.Run("HTTP isolation", func(t *testing.T) { httpIsolation(t, nw) })
	t.Run("re-entry", func(t *testing.T) { reentry(t, nw) })
	t.Run("path bias", func(t *testing.T) { pathBias(t, nw) })
	t.Run("restart", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n := nw.Node("chiveexit0")
		fp, port := n.Fingerprint, n.ORPort
		if err := n.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if n.Fingerprint != fp || n.ORPort != port {
			t.Errorf("it came back as %s at %s", n.Fingerprint, n.ORPort)
		}
		// The client notices that its circuits are closed, and builds others.
		for {
			_, err := nw.Fetch(ctx, 1000)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestBridge uses a network's bridge, which is in no list.
func TestBridge(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Bridges: 1})
	n := nw.Node("chivebridge0")
	if n == nil || n.Role != lab.Bridge || len(n.Bridge) != 1 {
		t.Fatalf("%+v", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir(), Bridges: n.Bridge})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo(t, ctx, c.DialContext, nw.Echo)
	for _, o := range c.Status().Open {
		if len(o.Path) > 0 && o.Path[0] != n.Fingerprint {
			t.Errorf("a circuit by %v", o.Path)
		}
	}
	// The directory does not list the bridge, and so it has no nickname there.
	name := func(fingerprint string) string {
		for _, n := range nw.Nodes() {
			if n.Fingerprint == fingerprint {
				return n.Name
			}
		}
		return ""
	}
	conn, err := c.DialContext(ctx, "tcp", nw.Echo)
	if err != nil {
		t.Fatal(err)
	}
	st := c.Status()
	if len(st.Carried) != 1 || st.Streams != 1 || !slices.ContainsFunc(st.Open, func(o chive.CircuitStatus) bool {
		return o.ID == st.Carried[0].Circuit && len(o.Path) == 3 && slices.Equal(o.Nicknames, []string{"", name(o.Path[1]), name(o.Path[2])})
	}) {
		t.Errorf("with an open stream: %+v %+v", st.Carried, st.Open)
	}
	if st.LinkIn == 0 || st.LinkOut == 0 {
		t.Errorf("%d bytes came and %d went", st.LinkIn, st.LinkOut)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if st := c.Status(); len(st.Carried) != 0 {
		t.Errorf("without one: %+v", st.Carried)
	}
	if s := n.Relay().Status(); s.Listed || s.ValidAfter.IsZero() {
		t.Errorf("the bridge: %+v", s)
	}
}

// TestMixed runs C tor's relays and clients under Chive's authorities, among
// Chive's relays.
func TestMixed(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw := start(t, lab.Options{Relays: 2, Exits: 1, CtorRelays: 1, CtorClients: 1})
	use(t, nw)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	echo(t, ctx, socksclient.Dialer{Proxy: nw.Node("client0").SOCKS}.DialContext, nw.Echo)
}

// TestTorAuthorities runs Chive's relays under C tor's authorities, with
// everything else that C tor has in the network too.
func TestTorAuthorities(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw := start(t, lab.Options{Relays: 3, Exits: 1, CtorAuthorities: true, CtorRelays: 1, CtorClients: 1})
	use(t, nw)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := nw.Node("client0")
	if n == nil || n.Program != "tor" || n.SOCKS == "" || n.PID() == 0 {
		t.Fatalf("C tor's client: %+v", n)
	}
	echo(t, ctx, socksclient.Dialer{Proxy: n.SOCKS}.DialContext, nw.Echo)
}

// TestStock runs a network whose nodes are all C tor's, with lines of torrc of our own; its clients have control
// ports. A line that tor does not know is an error.
func TestStock(t *testing.T) {
	_, err := lab.FindTor("")
	labtest.Need(t, "C tor", err)
	stock := lab.Options{Authorities: 1, Relays: -1, Exits: -1, CtorAuthorities: true, CtorRelays: 2, CtorExits: 1, CtorClients: 1}
	stock.CtorTorrc = []string{"Schedulers Vanilla"}
	nw := start(t, stock)
	use(t, nw)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := nw.Node("client0")
	echo(t, ctx, socksclient.Dialer{Proxy: n.SOCKS}.DialContext, nw.Echo)
	for _, n := range nw.Nodes() {
		if n.Program != "tor" {
			t.Errorf("%s is a node of %s", n.Name, n.Program)
		}
	}
	c, err := net.Dial("tcp", n.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "PROTOCOLINFO 1\r\nQUIT\r\n")
	if said, err := io.ReadAll(c); err != nil || !strings.Contains(string(said), "METHODS=COOKIE") {
		t.Errorf("the control port says %q, %v", said, err)
	}

	stock.CtorTorrc = []string{"NoSuchOption 1"}
	if nw, err := lab.Start(ctx, stock); err == nil || !strings.Contains(err.Error(), "NoSuchOption") {
		if nw != nil {
			nw.Close()
		}
		t.Errorf("a line that tor does not know: %v", err)
	}
}

// start starts a network for one test, and checks that Close leaves nothing
// behind.
func start(t *testing.T, o lab.Options) *lab.Network {
	t.Helper()
	// A port that no other program opens after it is closed: the kernel does not
	// assign it, and no other network leases it.
	leases := new(ports.Leases)
	t.Cleanup(leases.Release)
	port, err := leases.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	o.SOCKS = netip.AddrPortFrom(loopback, port).String()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nw.Stages {
		t.Logf("%s: %v", s.Name, s.Took)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(nw.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after Close: %v", nw.Dir, err)
		}
		if c, err := net.Dial("tcp", nw.SOCKS); err == nil {
			c.Close()
			t.Error("the SOCKS port is open after Close")
		}
	})
	return nw
}

// use checks everything that each network must do.
func use(t *testing.T, nw *lab.Network) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	f, err := nw.Fetch(ctx, 300_000)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Path) != 3 || f.Path[2].Role != lab.Exit || len(f.Hops) != 3 || f.Bytes != 300_000 {
		t.Errorf("fetched %+v", f)
	}
	for i, n := range f.Path {
		for _, m := range f.Path[:i] {
			if n == m {
				t.Errorf("%s is in the path twice", n.Name)
			}
		}
	}

	// The interfaces for other programs: the SOCKS port, and the JSON.
	echo(t, ctx, socksclient.Dialer{Proxy: nw.SOCKS}.DialContext, nw.Echo)
	_, port, err := net.SplitHostPort(nw.Echo)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, socksclient.Dialer{Proxy: nw.SOCKS}.DialContext, net.JoinHostPort(target.Name4, port))
	text, err := json.Marshal(nw)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		NetworkFile string `json:"network_file"`
		SOCKS       string
		TargetURL   string `json:"target_url"`
		Dir         string
		Nodes       []lab.Node
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	if said.SOCKS != nw.SOCKS || said.Dir != nw.Dir || said.NetworkFile != nw.NetworkFile || len(said.Nodes) != len(nw.Nodes()) {
		t.Errorf("JSON: %s", text)
	}
	if _, err := os.Stat(said.NetworkFile); err != nil {
		t.Error(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: socksclient.Dialer{Proxy: nw.SOCKS}.DialContext, DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Get(said.TargetURL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, res.Body); err != nil || [32]byte(h.Sum(nil)) != target.Sum(lab.TargetBytes) {
		t.Errorf("the target's URL through the SOCKS port: %x, %v", h.Sum(nil), err)
	}
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func echo(t *testing.T, ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), addr string) {
	t.Helper()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	const words = "there and back"
	got := make([]byte, len(words))
	if _, err := io.WriteString(c, words); err != nil {
		t.Error(err)
	} else if _, err := io.ReadFull(c, got); err != nil || string(got) != words {
		t.Errorf("echo: %q, %v", got, err)
	}
}

func TestRefuses(t *testing.T) {
	for want, o := range map[string]lab.Options{
		"more than":             {Relays: 1300},
		"an authority":          {Authorities: -1},
		"authorities are":       {Authorities: 65},
		"an exit":               {Exits: -1},
		"negative":              {CtorRelays: -1},
		"a negative number":     {CtorExits: -1},
		"program to run":        {Processes: true, CtorAuthorities: true},
		"voting interval 9s":    {VotingInterval: 9 * time.Second},
		"voting interval 10.5s": {VotingInterval: 10500 * time.Millisecond},
		"voting interval 25h":   {VotingInterval: 25 * time.Hour},
		"for bridges":           {BridgeTransports: []string{"obfs4 exec /nonexistent"}},
	} {
		nw, err := lab.Start(t.Context(), o)
		if err == nil {
			nw.Close()
		}
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// Start refuses a directory with the files of an earlier network.
func TestRefusesUsedDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "network.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nw, err := lab.Start(t.Context(), lab.Options{Dir: dir})
	if err == nil {
		nw.Close()
	}
	if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "earlier") {
		t.Error(err)
	}
}

// TestStartFails: a failed start leaves nothing behind.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	nw, err := lab.Start(t.Context(), lab.Options{CtorAuthorities: true, Tor: "/nonexistent/tor"})
	if err == nil {
		nw.Close()
		t.Fatal("it started")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
