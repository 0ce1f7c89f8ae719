package bench

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"

	"github.com/chivenet/chive/program/programtest"
)

// TestMain: the test's program is a measured node, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bench-node" {
		os.Exit(testNode(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// testNode runs a node as chive-eth's hidden command does.
func testNode(args []string) int {
	cfg := NodeConfig{}
	for i := 0; i < len(args); i++ {
		if args[i] == "--both" {
			cfg.Both = true
			continue
		}
		at := map[string]*string{"--kind": (*string)(&cfg.Kind), "--network": &cfg.Network, "--dir": &cfg.Dir, "--proxy": &cfg.Proxy,
			"--control": &cfg.Control, "--socks": &cfg.SOCKS}[args[i]]
		if at == nil {
			return 2
		}
		i++
		*at = args[i]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Node(ctx, os.Stdout, cfg); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// TestRemote: the measuring side speaks with go-ethereum's server, and times all steps.
func TestRemote(t *testing.T) {
	programtest.NoLeaks(t)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	srv := &p2p.Server{Config: p2p.Config{PrivateKey: key, MaxPeers: 2, NoDial: true, NoDiscovery: true, Protocols: []p2p.Protocol{protocol()},
		Logger: log.NewLogger(slog.DiscardHandler)}}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	dial := func(context.Context) (net.Conn, error) {
		a, b := net.Pipe()
		go srv.SetupConn(b, 4, nil)
		return a, nil
	}
	r, s, err := connect(t.Context(), dial, &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if s.RLPx <= 0 || s.Hello <= 0 || s.Status <= 0 || s.Total() < s.RLPx+s.Hello+s.Status {
		t.Errorf("%+v", s)
	}
	if _, err := r.echo(make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if _, err := r.get(3*chunk + 17); err != nil {
		t.Error(err)
	}
	for _, pace := range []time.Duration{0, time.Millisecond} {
		got, err := r.load(time.Now().Add(200*time.Millisecond), pace)
		if err != nil {
			t.Error(err)
		}
		t.Logf("pace %v: %d bytes", pace, got) // none if this machine has no time at all
		if _, err := r.echo(nil); err != nil { // no answer is left on its way
			t.Error(err)
		}
	}
	r.close()
	if _, err := r.echo(nil); err == nil {
		t.Error("a round trip over a connection that is closed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := connect(ctx, func(context.Context) (net.Conn, error) {
		a, _ := net.Pipe() // nobody answers
		return a, nil
	}, &key.PublicKey); err == nil {
		t.Error("a connection after the context's end")
	}
}

// TestWhole measures a little of everything that needs no other program.
func TestWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in a short run: it starts networks")
	}
	sizes := Sizes{Kinds: []Kind{Clear, Chive}, Connections: 2, Firsts: 1, Bytes: 100_000, Downloads: 1, Rounds: 10,
		Peers: []int{2}, Spread: []int{2}, While: 100 * time.Millisecond, Loads: []int{50}, LinkBytes: 10_000}
	var said strings.Builder
	cfg := Config{Sizes: sizes, Dir: t.TempDir(), Program: os.Args[0], Args: []string{"bench-node"}, Progress: func(s string) { said.WriteString(s + "\n") }}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r, err := Run(ctx, cfg)
	if err != nil {
		t.Fatalf("%v after\n%s", err, &said)
	}
	for _, table := range tables {
		rows := r.rows(table.name)
		if len(rows) == 0 {
			t.Errorf("nothing in the table %s", table.name)
		}
		for _, row := range rows {
			if row.N < 1 && row.Table != tableLoad || row.Min > row.Median || row.Median > row.Max || row.Unit == unitMS && row.N > 0 && row.Min <= 0 {
				t.Errorf("%+v", row)
			}
		}
	}
	for policy, want := range map[string]float64{"clearnet": 0, "only-onion": 100, "prefer-onion": 100, byClass: 100} {
		if row, ok := r.find(tablePolicies, policy, "", "connections by the onion"); !ok || row.Median != want {
			t.Errorf("%s: %v %% by the onion", policy, row.Median)
		}
	}
	if plain, ok := r.find(tableLinks, string(Clear), "", "round trip"); !ok || plain.Min < ms(4*linkDelay) {
		t.Errorf("a round trip through links of %v took %v ms", linkDelay, plain.Min)
	}
	if err := r.Write(cfg.Dir); err != nil {
		t.Error(err)
	}
}
