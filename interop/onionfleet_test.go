//go:build unix

package interop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// fleetPort is the virtual port at which each host of a service says its name.
const fleetPort = 7

// patientClients has C tor's clients learn no time-out of circuits: those that connect all the time learn one of some
// 60 ms here, and on a loaded machine then give up every circuit of four hops to an introduction point, for minutes.
func patientClients() map[string][]string {
	return map[string][]string{"client": {"LearnCircuitBuildTimeout 0"}}
}

// balancedNetwork is a network with the times that OnionBalance expects of one for tests.
func balancedNetwork(t *testing.T) *ctor.Network {
	t.Helper()
	return ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 5, Exits: 1, Clients: 1, VotingInterval: 20 * time.Second, Extra: patientClients()})
}

// named hosts a service that says its name on each connection.
func named(t *testing.T, nw *ctor.Network, name string, cfg chive.OnionConfig) *chive.OnionListener {
	t.Helper()
	c, _ := host(t, nw)
	cfg.Ports = []int{fleetPort}
	l := serve(t, c, cfg)
	go sayName(l, name)
	return l
}

func sayName(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, name) // a client that is gone reads nothing
		c.Close()
	}
}

// namedTor has C tor host a service that says its name. lines may have more options of
// the service.
func namedTor(t *testing.T, nw *ctor.Network, name, dir string, lines ...string) *ctor.Node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go sayName(l, name)
	return newStock(t, nw, append([]string{"HiddenServiceDir " + dir, fmt.Sprintf("HiddenServicePort %d %s", fleetPort, l.Addr())}, lines...)...)
}

// backendDir makes the directory of a backend for C tor, or for Chive.
func backendDir(t *testing.T, master string) (dir, address string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "service")
	k, err := hsservice.OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ob_config"), []byte("MasterOnionAddress "+master+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, k.Address()
}

type dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// ask connects once and returns the name of the host that answers.
func ask(ctx context.Context, d dialer, address string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", address, fleetPort))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetReadDeadline(deadline)
	}
	b, err := io.ReadAll(c)
	if err == nil && len(b) == 0 {
		err = errors.New("closed without a word")
	}
	return string(b), err
}

// reachAll connects over circuits of its own each time, until every host of the list
// has answered.
func reachAll(t *testing.T, who string, next func() dialer, address string, hosts ...string) {
	t.Helper()
	got := map[string]int{}
	began, failed := time.Now(), 0
	var last error
	for len(got) < len(hosts) {
		if time.Since(began) > patience+torPatience {
			t.Fatalf("%s: reached %v, wanted %v; the last error: %v", who, got, hosts, last)
		}
		name, err := ask(t.Context(), next(), address, torPatience)
		if err != nil {
			failed, last = failed+1, err
			t.Logf("%s: after %v: %v", who, time.Since(began).Round(time.Millisecond), err)
			select {
			case <-t.Context().Done():
				t.Fatal(err)
			case <-time.After(time.Second): // the client remembers for a while that there is no descriptor
			}
			continue
		}
		got[name]++
	}
	for _, h := range hosts {
		if got[h] == 0 {
			t.Errorf("%s: reached %v, wanted %v", who, got, hosts)
		}
	}
	t.Logf("%s: reached %v after %v; %d failures", who, got, time.Since(began).Round(time.Second), failed)
}

// addHost starts a host with which others are found by a new C tor. Of several introduction points at one relay, C tor's
// clients use the first that the descriptor names (hs_client_setup_intro_circ_auth_key): the hosts are at different ones.
func addHost(t *testing.T, nw *ctor.Network, k *hsservice.Key, name string, others ...string) *fleetHost {
	t.Helper()
	h := startHost(t, nw, k, name)
	reachAll(t, "a new C tor, with "+name, byTor(newStock(t, nw)), k.Address(), append(others, name)...)
	return h
}

// byTor has a C tor use a new circuit each time.
func byTor(n *ctor.Node) func() dialer {
	return func() dialer {
		return socksclient.Dialer{Proxy: n.SOCKS.String(), User: fmt.Sprint("fleet", torUsers.Add(1)), Pass: "x"}
	}
}

var torUsers atomic.Int64

// byChive has a Chive client use a new circuit each time.
func byChive(c *chive.Client) func() dialer {
	return func() dialer { return c.Isolated() }
}

// needOnionBalance returns OnionBalance's path: CHIVE_ONIONBALANCE, or onionbalance in
// PATH. The test is skipped, with a message, if there is none: only 0.2.4, of PyPI, was
// tried, and a missing one is a failure only if CHIVE_ONIONBALANCE is set and
// CHIVE_INTEROP=1.
func needOnionBalance(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	name := os.Getenv("CHIVE_ONIONBALANCE")
	path, err := exec.LookPath(cmp.Or(name, "onionbalance"))
	if err != nil {
		if name != "" && os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: onionbalance: %v", err)
	}
	return path
}

// TestOnionBalance has OnionBalance give the clients of one address to two backends of
// Chive's and one of C tor's.
func TestOnionBalance(t *testing.T) {
	program := needOnionBalance(t)
	t.Parallel()
	nw := balancedNetwork(t)
	front := filepath.Join(t.TempDir(), "front")
	k, err := hsservice.OpenKey(front)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("services:\n- key: %s/hs_ed25519_secret_key\n  instances:\n", front)
	for _, name := range []string{"chive0", "chive1", "tor"} {
		dir, address := backendDir(t, k.Address())
		config += "  - address: " + address + "\n"
		if name == "tor" {
			namedTor(t, nw, name, dir, "HiddenServiceOnionBalanceInstance 1")
		} else {
			named(t, nw, name, chive.OnionConfig{KeyDir: dir})
		}
	}
	file := filepath.Join(front, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	control := newStock(t, nw)
	said := new(logText)
	cmd := exec.Command(program, "-i", "127.0.0.1", "-p", fmt.Sprint(control.ControlAddr.Port()), "-s", "", "-c", file, "--is-testnet", "-v", "info")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	reachAll(t, "C tor", byTor(nw.Node("client0")), k.Address(), "chive0", "chive1", "tor")
	c, _ := host(t, nw)
	reachAll(t, "Chive", byChive(c), k.Address(), "chive0", "chive1", "tor")
	for _, bad := range []string{"[ERROR]", "Traceback"} {
		if strings.Contains(said.String(), bad) {
			t.Errorf("OnionBalance says %s:\n%s", bad, said.String())
		}
	}
}

// TestOnionFrontend has Chive be the frontend of a backend of C tor's and one of its own.
func TestOnionFrontend(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2, Clients: 1, Extra: patientClients()})
	k, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	torDir, torAddress := backendDir(t, k.Address())
	chiveDir, chiveAddress := backendDir(t, k.Address())
	tor := namedTor(t, nw, "tor", torDir, "HiddenServiceOnionBalanceInstance 1")
	named(t, nw, "chive", chive.OnionConfig{KeyDir: chiveDir})
	// A client keeps a frontend's descriptor for hours, so both backends must be there
	// before the first one.
	reachAll(t, "the backend by its own address", byTor(nw.Node("client0")), torAddress, "tor")
	c, told := host(t, nw)
	front := serve(t, c, chive.OnionConfig{Key: k, Backends: []string{torAddress, chiveAddress}})
	if front.Address() != k.Address() {
		t.Fatal("the address is another")
	}
	reachAll(t, "C tor", byTor(newStock(t, nw)), k.Address(), "tor", "chive")
	client, _ := host(t, nw)
	reachAll(t, "Chive", byChive(client), k.Address(), "tor", "chive")
	// The backend comes back with other introduction points.
	if err := tor.Stop(); err != nil {
		t.Fatal(err)
	}
	reachAll(t, "a new C tor, one backend being down", byTor(newStock(t, nw)), k.Address(), "chive")
	if err := tor.Start(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	client.NewIdentity()
	reachAll(t, "Chive, after the backend came back", func() dialer { client.NewIdentity(); return client }, k.Address(), "tor", "chive")
	for _, n := range nw.Nodes {
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, line := range w {
			if !strings.Contains(line, "extend back to the previous hop") && !strings.Contains(line, "process_relay_cell (away from origin) failed") {
				t.Errorf("%s: %s", n.Name, line)
			}
		}
	}
	for _, bad := range []string{"level=WARN", "level=ERROR"} {
		if strings.Contains(told.String(), bad) {
			t.Errorf("Chive's log has %q:\n%s", bad, told.String())
		}
	}
}

// fleetHost is a process that is one host of a service.
type fleetHost struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startHost starts a host that says its name, with a copy of the key, and waits until
// clients can connect.
func startHost(t *testing.T, nw *ctor.Network, k *hsservice.Key, name string) *fleetHost {
	t.Helper()
	file, err := nw.WriteNetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "service"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := append([]byte("== ed25519v1-secret: type0 ==\x00\x00\x00"), k.Bytes()...)
	if err := os.WriteFile(filepath.Join(dir, "service", "hs_ed25519_secret_key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go sayName(l, name)
	cmd := exec.Command(command(t), "onion", "serve", "--network", file, "--data-dir", filepath.Join(dir, "client"),
		"--key-dir", filepath.Join(dir, "service"), "--fleet", fmt.Sprintf("%d=%s", fleetPort, l.Addr()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &noPanics{t: t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &fleetHost{cmd, make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "ready" {
				close(ready)
			}
		}
		_ = cmd.Wait() // it is stopped or killed
		close(h.done)
	}()
	t.Cleanup(func() { h.end(t, syscall.SIGKILL) })
	select {
	case <-ready:
	case <-h.done:
		t.Fatalf("host %s ended", name)
	case <-time.After(patience):
		t.Fatalf("host %s is not ready", name)
	}
	return h
}

// end sends a signal and waits for the process's end.
func (h *fleetHost) end(t *testing.T, sig os.Signal) {
	t.Helper()
	_ = h.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-h.done:
	case <-time.After(patience):
		t.Error("a host does not end")
	}
}

const (
	// torPatience is how long a connect may take: C tor's clients, and Chive's that look like them, wait long for a host that was
	// killed after it had taken their introductions.
	torPatience = 100 * time.Second
	// fastPatience is less than the 30 seconds after which Chive's client gives up a rendezvous.
	fastPatience = 20 * time.Second
)

// probing connects all the time until over is called. At most so many connects may fail, or
// take longer than within: one at a time is under way.
func probing(t *testing.T, who string, next func() dialer, address string, within time.Duration, most int) (over func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done, once := make(chan struct{}), make(chan struct{}) // once: a connect is over
	var failed, all int
	var longest time.Duration
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			began := time.Now()
			_, err := ask(ctx, next(), address, within)
			if ctx.Err() != nil {
				return
			}
			if all++; all == 1 {
				close(once)
			}
			longest = max(longest, time.Since(began))
			if err != nil {
				failed++
				t.Logf("%s: connect %d after %v: %v", who, all, time.Since(began).Round(time.Millisecond), err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() {
		<-once // a connect takes its own time at most
		cancel()
		<-done
		t.Logf("%s: %d connects, %d failed, the longest %v", who, all, failed, longest.Round(time.Millisecond))
		if failed > most || all == 0 {
			t.Errorf("%s: %d of %d connects failed", who, failed, all)
		}
	}
}

// TestOnionFleet has hosts of one address come and go: a new one, one that leaves, one
// that is killed, one that hangs. Clients that fetched the descriptor at the beginning connect all the
// time.
func TestOnionFleet(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 6, Exits: 2, Clients: 1, Extra: patientClients()})
	k, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	a := startHost(t, nw, k, "A")
	old := byTor(nw.Node("client0"))
	reachAll(t, "C tor, at first", old, k.Address(), "A")
	mine, _ := host(t, nw)
	reachAll(t, "Chive, at first", byChive(mine), k.Address(), "A")
	// A host that leaves first meets the clients that have asked for it, and lets them finish.
	overTor := probing(t, "C tor", old, k.Address(), torPatience, 0)
	quick, _ := hostAs(t, nw, chive.AppearanceFast)
	overChive := probing(t, "Chive", byChive(mine), k.Address(), torPatience, 0)
	b := addHost(t, nw, k, "B", "A")
	began := time.Now()
	a.end(t, syscall.SIGTERM)
	t.Logf("A left after %v", time.Since(began).Round(time.Millisecond))
	reachAll(t, "C tor, after A left", old, k.Address(), "B")
	fresh := newStock(t, nw)
	reachAll(t, "a new C tor, after A left", byTor(fresh), k.Address(), "B")
	addHost(t, nw, k, "C", "B")
	overTor()
	overChive()
	// A client of C tor whose introduction has reached a host that is killed then waits for long, and so does Chive's.
	// One that is in a hurry asks another host soon.
	overTor = probing(t, "C tor, with a kill", old, k.Address(), torPatience, 1)
	overChive = probing(t, "Chive, with a kill", byChive(mine), k.Address(), torPatience, 1)
	overFast := probing(t, "Chive in a hurry, with a kill", byChive(quick), k.Address(), fastPatience, 0)
	b.end(t, syscall.SIGKILL)
	reachAll(t, "C tor, after B was killed", old, k.Address(), "C")
	reachAll(t, "a new C tor, after B was killed", byTor(newStock(t, nw)), k.Address(), "C")
	overTor()
	overChive()
	overFast()
	// Relays go on to take introductions for a host that hangs.
	d := startHost(t, nw, k, "D")
	quick.NewIdentity()
	reachAll(t, "Chive, with D", byChive(quick), k.Address(), "C", "D")
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		began := time.Now()
		name, err := ask(t.Context(), quick.Isolated(), k.Address(), fastPatience)
		if err != nil || name != "C" {
			t.Errorf("while D hangs, connect %d reached %q: %v", n, name, err)
		}
		t.Logf("while D hangs, connect %d took %v", n, time.Since(began).Round(time.Millisecond))
	}
}
