package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// TestNothingClear runs go-ethereum's node object over onions in a network namespace that
// has a way out, and counts what takes it: no packet, no look-up of a name, no UDP socket
// and no listener but on loopback, at the start, when peers fail, and at the end.
func TestNothingClear(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network of relays")
	}
	if host.InNamespace() {
		nothingClear(t)
		return
	}
	if err := host.CanNamespace(); err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	name := fmt.Sprint("chive-eth-", os.Getpid())
	ns, err := host.NewNamespace(ctx, name)
	if err != nil && strings.Contains(err.Error(), "Operation not permitted") {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Packets for everywhere leave by out0.
	if err := ns.WayOut(ctx); err != nil {
		t.Fatal(err)
	}
	cmd := ns.Command(ctx, os.Args[0], "-test.run", "^TestNothingClear$", "-test.v", "-test.timeout", "8m")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNothingClear") {
		t.Fatal(err)
	}
}

// meter counts what leaves, in the namespace.
type meter struct {
	lookups atomic.Int64
	udp     map[string]bool // the UDP sockets of before
}

func (*meter) packets(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/sys/class/net/out0/statistics/tx_packets")
	if err != nil {
		// /sys may be that of another namespace.
		b, err = exec.Command("sh", "-c", "grep out0: /proc/net/dev | sed 's/.*://' | awk '{print $10}'").Output()
	}
	n, nerr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || nerr != nil {
		t.Fatal(err, nerr)
	}
	return n
}

// mine returns the inodes of this process's sockets in a table of /proc/net.
func mine(t *testing.T, table string, keep func(fields []string) bool) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, fd := range fds {
		if link, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	out := map[string]bool{}
	for _, name := range []string{table, table + "6"} {
		b, err := os.ReadFile("/proc/self/net/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n")[1:] {
			if f := strings.Fields(line); len(f) > 9 && own[f[9]] && keep(f) {
				out[f[9]] = true
			}
		}
	}
	return out
}

// exposedListeners are TCP sockets that listen on more than loopback.
func exposedListeners(t *testing.T) int {
	return len(mine(t, "tcp", func(f []string) bool {
		// local address in hex, and state 0A: listening
		return f[3] == "0A" && !strings.HasPrefix(f[1], "0100007F:") && !strings.HasPrefix(f[1], "00000000000000000000000001000000:")
	}))
}

func (m *meter) check(t *testing.T, when string) {
	t.Helper()
	if n := m.packets(t); n != 0 {
		t.Errorf("%s: %d packets outside loopback", when, n)
	}
	if n := m.lookups.Load(); n != 0 {
		t.Errorf("%s: %d look-ups of names", when, n)
	}
	for inode := range mine(t, "udp", func([]string) bool { return true }) {
		if !m.udp[inode] {
			t.Errorf("%s: a UDP socket", when)
		}
	}
	if n := exposedListeners(t); n != 0 {
		t.Errorf("%s: %d listeners that others can reach", when, n)
	}
	t.Logf("%s: %d packets outside, %d look-ups", when, m.packets(t), m.lookups.Load())
}

func nothingClear(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute)
	defer cancel()
	m := new(meter)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		m.lookups.Add(1)
		return nil, errors.New("no look-ups")
	}}
	nw, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 6, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	other, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m.udp = mine(t, "udp", func([]string) bool { return true }) // the lab's own name server
	if n := m.packets(t); n != 0 {
		t.Fatalf("%d packets before the start", n)
	}

	// a is go-ethereum's node object, with a manager above its server.
	key, p := nodetest.Key(t), newTalk()
	geth, err := node.New(&node.Config{
		DataDir: t.TempDir(), Name: "geth", Logger: log.NewLogger(slog.DiscardHandler),
		P2P: p2p.Config{PrivateKey: key, MaxPeers: 20, NoDial: true, NoDiscovery: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	geth.RegisterProtocols([]p2p.Protocol{p.protocol()})
	if err := geth.Start(); err != nil {
		t.Fatal(err)
	}
	closed := false
	closeGeth := func() {
		if !closed {
			closed = true
			if err := geth.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	defer closeGeth()
	a := run(t, devp2p.Embedded(nw.Client), Config{Key: key, Server: geth.Server(), Dir: t.TempDir()})
	a.talk = p
	self := selfWithOnion(t, ctx, a)
	m.check(t, "start")

	// b knows a, and nodes that do not answer: their onions are away, and their addresses
	// must not be tried.
	away := enr.IPv4(net.IPv4(10, 77, 0, 50))
	static := []*enode.Node{
		self, nodetest.Peer(t, newOnion(t), away),
		enode.NewV4(&nodetest.Key(t).PublicKey, nil, 30303, 30303).WithHostname(newOnion(t).Addr()),
	}
	b := run(t, devp2p.Embedded(other), Config{Static: static, BackoffMin: 100 * time.Millisecond, BackoffMax: 200 * time.Millisecond})
	p.wait(t, ctx, 1)
	b.talk.wait(t, ctx, 1)
	m.check(t, "connected")

	failures := func(n int) func() bool {
		return func() bool {
			for _, s := range b.Status() {
				if s.State != Connected && s.Failures < n {
					return false
				}
			}
			return true
		}
	}
	await(t, ctx, "nodes that are away to fail", failures(2))
	m.check(t, "nodes away")
	a.stop()
	closeGeth()
	await(t, ctx, "the peer to fail", func() bool {
		for _, s := range b.Status() {
			if s.State == Connected {
				return false
			}
		}
		return failures(2)()
	})
	m.check(t, "peer failed")
	b.stop()
	m.check(t, "end")

	// The meter counts what does leave.
	tr, err := devp2p.New(devp2p.Config{Policy: devp2p.Clearnet, DialTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Dial(ctx, nodetest.Peer(t, away)); err == nil {
		t.Error("somebody answered")
	}
	if m.packets(t) == 0 {
		t.Error("a dial of an address was not counted")
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, "example.com"); err == nil || m.lookups.Load() == 0 {
		t.Error("a look-up was not counted:", err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if len(mine(t, "udp", func([]string) bool { return true })) != len(m.udp)+1 || exposedListeners(t) != 1 {
		t.Error("a UDP socket or a listener was not counted")
	}
}

// TestRefusesServer: a server that reaches others by itself is refused, by name.
func TestRefusesServer(t *testing.T) {
	for want, cfg := range map[string]p2p.Config{
		"NoDial":      {NoDiscovery: true},
		"NoDiscovery": {NoDial: true},
		"ListenAddr":  {NoDial: true, NoDiscovery: true, ListenAddr: ":30303"},
		"DiscoveryV4": {NoDial: true, NoDiscovery: true, DiscoveryV4: true},
		"not started": {NoDial: true, NoDiscovery: true},
	} {
		m := idle(t, Config{Server: &p2p.Server{Config: cfg}, Dir: filepath.Join(t.TempDir(), "x")})
		if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
