package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"
)

// clientGroup is the group of another client's processes, by which their packets are counted.
const clientGroup = 65533

// ethereumJS is a client that nobody here and nobody of geth wrote.
type ethereumJS struct {
	dir, key string
	p2p, rpc uint16
	log      *bytes.Buffer
}

// start runs the client with all flags that turn something off. before are arguments for node itself. stop ends it.
func (e *ethereumJS) start(t *testing.T, before ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command("node", append(before, filepath.Join(e.dir, "node_modules/@ethereumjs/client/dist/esm/bin/cli.js"),
		"--network", "hoodi", "--dataDir", t.TempDir(), "--port", fmt.Sprint(e.p2p), "--extIP", "127.0.0.1",
		"--bootnodes", "enode://"+strings.Repeat("ab", 64)+"@127.0.0.1:9", // it needs some
		"--rpc", "--rpcAddr", "127.0.0.1", "--rpcPort", fmt.Sprint(e.rpc), "--discDns=false", "--discV4=false")...)
	inGroup(cmd, clientGroup)
	e.log = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = e.log, e.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // or it has ended
		_ = cmd.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var info struct{ ID string }
		c, err := rpc.DialContext(ctx, fmt.Sprint("http://127.0.0.1:", e.rpc))
		if err == nil {
			err = c.CallContext(ctx, &info, "admin_nodeInfo")
			c.Close()
		}
		if err == nil && info.ID != "" {
			e.key = info.ID
			return stop
		}
		select {
		case <-ctx.Done():
			stop()
			t.Fatalf("the client does not answer: %v\n%s", err, e.log)
		case <-time.After(100 * time.Millisecond): // it tells nobody
		}
	}
}

// TestEthereumJS has EthereumJS behind a sidecar, in a network namespace. It is judged by its sockets: as it is, it
// is not private, whatever it says of itself; with its sockets bound to loopback it is, and its
// peers come by the onion. No packet of the client or the sidecar goes outside.
// interop/clients/install DIR gets the client; CHIVE_CLIENTS=DIR names it.
func TestEthereumJS(t *testing.T) {
	dir := os.Getenv("CHIVE_CLIENTS")
	if dir == "" {
		t.Skip("no client: interop/clients/install DIR gets it, and CHIVE_CLIENTS=DIR names it")
	}
	inNamespace(t, 8*time.Minute, func(t *testing.T) { ethereumJSBehind(t, dir) })
}

func ethereumJSBehind(t *testing.T, dir string) {
	var leases host.Ports
	t.Cleanup(leases.Release)
	e := &ethereumJS{dir: dir}
	for _, p := range []*uint16{&e.p2p, &e.rpc} {
		port, err := leases.Take(loopback)
		if err != nil {
			t.Fatal(err)
		}
		*p = uint16(port)
	}
	scripts, err := filepath.Abs("clients")
	if err != nil {
		t.Fatal(err)
	}
	nw := startLab(t, lab.Options{})
	chiveEth := build(t)
	nft(t, "add", "table", "inet", "sidecar")
	nft(t, "add", "chain", "inet", "sidecar", "out", "{ type filter hook output priority 0; }")
	of := fmt.Sprint("meta skgid ", sidecarGroup)
	for _, rule := range [][2]string{
		{"client", fmt.Sprint("meta skgid ", clientGroup) + " oifname != lo"},
		{"tor", of + " ip daddr 127.0.0.1 tcp dport { " + orPorts(nw) + " }"},
		{"node", of + fmt.Sprintf(" ip daddr 127.0.0.1 tcp dport { %d, %d }", e.p2p, e.rpc)},
		{"elsewhere", of},
	} {
		nft(t, "add", "counter", "inet", "sidecar", rule[0])
		nft(t, "add", "rule", "inet", "sidecar", "out", rule[1]+" counter name "+rule[0]+" return")
	}
	sidecar := func(t *testing.T, dir string) <-chan string {
		cmd := exec.Command(chiveEth, "sidecar", "--rpc-url", fmt.Sprint("http://127.0.0.1:", e.rpc), "--only-onion", "--network", nw.NetworkFile, "--data-dir", dir)
		inGroup(cmd, sidecarGroup)
		return runAs(t, cmd)
	}
	t.Run("as it is", func(t *testing.T) {
		dir := t.TempDir()
		defer e.start(t)()
		lines := sidecar(t, dir)
		for _, leak := range []string{"its process has UDP sockets", "its process listens"} {
			t.Log(leak, says(t, lines, "not private: "+leak))
		}
		out, err := exec.CommandContext(t.Context(), chiveEth, "status", "--data-dir", dir).Output()
		if err != nil || !strings.Contains(string(out), "private     no") || !strings.Contains(string(out), "onion       none yet") {
			t.Errorf("the sidecar's status: %v\n%s", err, out)
		}
	})
	t.Run("on loopback", func(t *testing.T) {
		defer e.start(t, "--import", filepath.Join(scripts, "loopback.mjs"))()
		lines := sidecar(t, t.TempDir())
		says(t, lines, "private")
		onion := says(t, lines, "onion ")
		port := portTo(t, nw, net.JoinHostPort(onion, "30303"))
		out, err := exec.CommandContext(t.Context(), "node", filepath.Join(scripts, "peer.mjs"), dir, e.key, fmt.Sprint(port)).CombinedOutput()
		var saw struct {
			Client  string
			Version int
		}
		if err == nil {
			err = json.Unmarshal(out, &saw)
		}
		if err != nil || !strings.HasPrefix(saw.Client, "EthereumJS/") || saw.Version != 68 {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("by the onion: %s", out)
	})
	outside, elsewhere, toTor, toNode := counted(t, "client"), counted(t, "elsewhere"), counted(t, "tor"), counted(t, "node")
	t.Logf("packets: %d of the client outside; of the sidecar %d to relays of the Tor network, %d to the client, %d anywhere else", outside, toTor, toNode, elsewhere)
	if outside != 0 || elsewhere != 0 || toTor == 0 || toNode == 0 {
		t.Error("not all packets went to the Tor network and to the client")
	}
	// The meter counts what the client would send.
	cmd := exec.CommandContext(t.Context(), "timeout", "0.3", "bash", "-c", "echo x >/dev/udp/10.77.0.50/30303")
	inGroup(cmd, clientGroup)
	_ = cmd.Run() // nobody answers
	if counted(t, "client") == 0 {
		t.Error("a packet of the client was not counted")
	}
}

// portTo opens a port of loopback that leads to an onion, for one connection.
func portTo(t *testing.T, nw *lab.Network, onion string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	far, err := nw.Client.DialContext(t.Context(), "tcp", onion)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		defer c.Close()
		go func() {
			_, _ = io.Copy(far, c) // the peer sees what became of it
			far.Close()
		}()
		_, _ = io.Copy(c, far)
	}()
	return l.Addr().(*net.TCPAddr).Port
}
