package interop

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/builtin"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/internal/transport"
)

// obfs4ByHand starts obfs4proxy as nobody's child would be: Chive only knows the port where it listens.
func obfs4ByHand(t *testing.T) netip.AddrPort {
	t.Helper()
	cmd := exec.Command(obfs4proxy(t))
	cmd.Env = append(os.Environ(), "TOR_PT_MANAGED_TRANSPORT_VER=1", "TOR_PT_STATE_LOCATION="+t.TempDir(), "TOR_PT_CLIENT_TRANSPORTS=obfs4", "TOR_PT_EXIT_ON_STDIN_CLOSE=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "CMETHOD obfs4 socks5 "); ok {
			go io.Copy(io.Discard, out)
			return netip.MustParseAddrPort(at)
		}
	}
	t.Fatal("obfs4proxy offers nothing")
	return netip.AddrPort{}
}

// children returns how many processes a process has started.
func children(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if os.IsNotExist(err) {
		t.Skip("SKIPPED, NOTHING WAS TESTED: this kernel does not list children")
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(text)))
}

// TestRunningTransport: a transport that runs already carries a client to a bridge of C tor.
func TestRunningTransport(t *testing.T) {
	nw := network(t, "vanilla")
	b := startTorBridge(t, nw, "running", "obfs4", obfs4proxy(t))
	at := obfs4ByHand(t)
	var d dialled
	c := bridgeClient(t, nw, &d, []string{fmt.Sprintf("obfs4 %s %s %s", b.pt, b.fp, b.extra)}, "ClientTransportPlugin obfs4 socks5 "+at.String())
	fetch(t, c)
	if a := d.only(t); a != at {
		t.Errorf("connected to %v, not to the transport at %v", a, at)
	}
}

// TestInsideToTor: a client with Chive's own transports inside uses a bridge of C tor with Chive as its plugin, and
// has no second process. The kernel's list shows its connections: to the transport's port, and to nothing else.
func TestInsideToTor(t *testing.T) {
	nw := network(t, "vanilla")
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range builtin.Names {
		t.Run(name, func(t *testing.T) {
			b := startTorBridge(t, nw, "inside"+name, name, bin)
			cmd, ports := runProxy(t, bin, nw, t.TempDir(), "--reachable-addresses", b.pt.String(), "--bridge", fmt.Sprintf("%s %s %s %s", name, b.pt, b.fp, b.extra))
			if err := download(bounded(t, patience), socksclient.Dialer{Proxy: ports["socks"]}, shared.target.Addr(target.Source), 10<<20); err != nil {
				t.Fatal(err)
			}
			conns, err := connsOf(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, c := range conns {
				switch {
				case c.remote == b.pt:
					n++
				case c.remote.Port() != 0 && c.local.Port() != netip.MustParseAddrPort(ports["socks"]).Port():
					t.Errorf("the client is connected to %v", c.remote)
				}
			}
			if n == 0 {
				t.Error("the client is not connected to the bridge's transport")
			}
			if n := children(t, cmd.Process.Pid); n != 0 {
				t.Errorf("the client has started %d processes", n)
			}
		})
	}
}

// TestInsideProxied: a transport inside a client reaches a bridge of C tor through the upstream proxy.
func TestInsideProxied(t *testing.T) {
	nw := network(t, "vanilla")
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	b := startTorBridge(t, nw, "insideproxied", "fte", bin)
	p := microsocks(t, nw, "127.0.0.1", "alice", "opensesame")
	line, err := pt.ParseBridgeLine(fmt.Sprintf("fte %s %s %s", b.pt, b.fp, b.extra))
	if err != nil {
		t.Fatal(err)
	}
	fte, _ := builtin.Of("fte")
	var d dialled
	c := upstreamClient(t, nw, &d, new(output), p.url, func(cfg *client.Config) {
		cfg.Bridges, cfg.Inside = []pt.BridgeLine{line}, map[string]transport.Client{"fte": fte}
	})
	fetch(t, c)
	if a := d.only(t); a != p.addr {
		t.Errorf("connected to %v, not to the proxy", a)
	}
	if want := b.pt.String(); !strings.Contains(p.log(), want) {
		t.Errorf("the proxy did not connect to the bridge: %s", p.log())
	}
}

// TestTorToInside: C tor's client, with Chive as its plugin, uses a bridge of Chive's that has the transports inside.
func TestTorToInside(t *testing.T) {
	nw := network(t, "vanilla")
	bin, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	cfg := relay.Config{Nickname: "insidebridge", Bridge: true, AssumeReachable: true, TransportListen: map[string]netip.AddrPort{},
		TransportOptions: map[string]ptspec.Args{"fte": {"key": strings.TrimPrefix(fteKey, "key=")}}, Inside: map[string]transport.Server{}}
	for _, name := range builtin.Names {
		cfg.Inside[name], _ = builtin.Of(name)
		cfg.TransportListen[name] = netip.MustParseAddrPort("127.0.0.1:0")
	}
	_, lines := runBridge(t, nw, cfg)
	for _, name := range builtin.Names {
		t.Run(name, func(t *testing.T) {
			line := lines[name]
			n := stockClient(t, nw, "UseBridges 1", "Bridge "+line.String(), "ClientTransportPlugin "+name+" exec "+bin)
			if err := download(bounded(t, patience), socksclient.Dialer{Proxy: n.SOCKS.String()}, shared.target.Addr(target.Source), 10<<20); err != nil {
				t.Fatal(err)
			}
		})
	}
	// The command prints the lines of the same.
	t.Run("command", func(t *testing.T) {
		file, err := nw.WriteNetworkFile()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, "relay", "--network", file, "--data-dir", t.TempDir(), "--nickname", "insidecommand", "--orport", "127.0.0.1:0", "--bridge", "--assume-reachable",
			"--shutdown-wait", "-1s", "--transport-listen", "fte 127.0.0.1:0", "--transport-options", "fte "+fteKey)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = &noPanics{t: t}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		var line string
		for lines := bufio.NewScanner(out); lines.Scan() && line == ""; {
			line, _ = strings.CutPrefix(lines.Text(), "bridge fte ")
			if line == lines.Text() {
				line = ""
			}
		}
		if !strings.HasSuffix(line, fteKey) {
			t.Fatalf("the line is %s", strconv.Quote(line))
		}
		go io.Copy(io.Discard, out)
		if n := children(t, cmd.Process.Pid); n != 0 {
			t.Errorf("the bridge has started %d processes", n)
		}
		n := stockClient(t, nw, "UseBridges 1", "Bridge fte "+line, "ClientTransportPlugin fte exec "+bin)
		if err := download(bounded(t, patience), socksclient.Dialer{Proxy: n.SOCKS.String()}, shared.target.Addr(target.Source), 10<<20); err != nil {
			t.Fatal(err)
		}
	})
}
