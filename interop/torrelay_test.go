package interop

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// relayTorrc is an operator's torrc, which C tor takes too. The client beside the relay has a port.
const relayTorrc = `DataDirectory DIR/data
Nickname movedrelay
ContactInfo Somebody <somebody@example.org>
Address 127.0.0.1
ORPort 127.0.0.1:PORT IPv4Only
AssumeReachable 1
ExitRelay 0
ExitPolicy reject *:*
MyFamily $FAMILY
BandwidthRate 20 MB
BandwidthBurst 40 MB
ShutdownWaitLength 1 second
SocksPort auto
ControlPort auto
ControlPortWriteToFile DIR/port
CookieAuthentication 1
Log notice file DIR/log
`

// networkLines are the lines of a network's torrc that an operator's relay has, too.
func networkLines(nw *ctor.Network) (text string) {
	for l := range strings.Lines(nw.Torrc()) {
		for _, name := range []string{"DirAuthority", "TestingTorNetwork", "EnforceDistinctSubnets"} {
			if strings.HasPrefix(l, name) {
				text += l
			}
		}
	}
	return text
}

// torIdentity returns what a tor prints of a relay's identity; it makes the keys if there are none.
func torIdentity(tor, torrc string) (string, error) {
	out, err := exec.Command(tor, "--hush", "--list-fingerprint", "-f", torrc).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", tor, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

// startedTor is chive by the name tor, as somebody starts it.
type startedTor struct {
	cmd *exec.Cmd
	dir string
}

func startTor(t *testing.T, program, dir, torrc string) *startedTor {
	t.Helper()
	cmd := exec.Command(program, "-f", torrc, "--quiet")
	cmd.Stderr = &noPanics{t: t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &startedTor{cmd, dir}
}

// control connects to its control port.
func (s *startedTor) control(t *testing.T) *ctor.Control {
	t.Helper()
	var address string
	await(t, "the port for controllers", patience, func() bool {
		b, err := os.ReadFile(s.dir + "/port")
		address = strings.TrimSpace(strings.TrimPrefix(string(b), "PORT="))
		return err == nil && address != ""
	})
	c, err := ctor.DialControl(bounded(t, patience), address, s.dir+"/data/control_auth_cookie")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// info asks for one key.
func info(t *testing.T, c *ctor.Control, key string) string {
	t.Helper()
	s, err := c.GetInfo(bounded(t, patience), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return strings.TrimSpace(s)
}

// TestTorRelay: a relay of C tor's goes on under chive by the name tor, with its torrc and its keys. The authorities list it, C tor's
// client has circuits through it, and it can go back. The client beside the relay never uses it.
func TestTorRelay(t *testing.T) {
	own, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	program, dir := torProgram(t), t.TempDir()
	torrc := filepath.Join(dir, "torrc")
	var before string
	var relay *startedTor
	nw, err := ctor.Start(bounded(t, 2*patience), ctor.Options{Relays: 3, Exits: 1, Clients: 1, Nameserver: shared.target.Nameserver(), Log: slog.New(slog.DiscardHandler),
		Guests: func(_ context.Context, nw *ctor.Network) ([]ctor.Guest, error) {
			text := strings.Replace(strings.ReplaceAll(relayTorrc, "DIR", dir), "127.0.0.1:PORT", "127.0.0.1:"+leasedPort(t, nw), 1) + networkLines(nw)
			text = strings.Replace(text, "FAMILY", nw.Node("relay0").ID.RSA.String(), 1)
			if err := os.WriteFile(torrc, []byte(text), 0o600); err != nil {
				return nil, err
			}
			var err error
			if before, err = torIdentity(own, torrc); err != nil {
				return nil, err
			}
			relay = startTor(t, program, dir, torrc)
			name, digits, _ := strings.Cut(before, " ")
			id, err := ident.ParseRSAID(strings.ReplaceAll(digits, " ", ""))
			return []ctor.Guest{{Nickname: name, RSA: id}}, err
		}})
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("%v\n%s", err, b)
	}
	defer nw.Close()
	print := strings.ReplaceAll(strings.TrimPrefix(before, "movedrelay "), " ", "")
	id, err := ident.ParseRSAID(print)
	if err != nil {
		t.Fatal(err)
	}
	c := relay.control(t)
	if got := info(t, c, "fingerprint"); got != print {
		t.Errorf("the relay is %s, and was %s under C tor", got, print)
	}
	for key, want := range map[string]string{"address": "127.0.0.1", "exit-policy/full": "reject *:*", "status/reachability-succeeded/or": "1", "accounting/enabled": "0"} {
		if got := info(t, c, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{"desc/id/" + print, "desc/name/movedrelay", "dir/server/authority", "status/fresh-relay-descs"} {
		got := info(t, c, key)
		for _, want := range []string{"router movedrelay 127.0.0.1 ", "\ncontact Somebody <somebody@example.org>\n", "\nbandwidth 20971520 41943040 "} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", key, want, got)
			}
		}
	}
	// As C tor's relays do, it keeps what others ask for.
	await(t, "the other relays' descriptors", patience, func() bool {
		return strings.Contains(info(t, c, "desc/all-recent"), "router relay0 ") && strings.HasPrefix(info(t, c, "dir/status-vote/current/consensus"), "network-status-version 3\n")
	})

	client := nw.ByRole(ctor.Client)[0]
	ctl, err := client.Control(bounded(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	me := &ctor.Node{ID: ident.RelayID{RSA: id}}
	for name, path := range map[string][]*ctor.Node{"guard": {me, nw.Node("relay0"), nw.Node("exit0")}, "middle": {nw.Node("relay0"), me, nw.Node("exit0")}} {
		if err := pinned(t, ctl, client, path, shared.target, windows); err != nil {
			logTail(t, client.LogPath)
			t.Fatalf("%s: %v", name, err)
		}
	}

	// The client beside it.
	await(t, "the client of the same process", patience, func() bool { return strings.Contains(info(t, c, "status/bootstrap-phase"), "PROGRESS=100") })
	socks := strings.Trim(info(t, c, "net/listeners/socks"), `"`)
	if err := download(bounded(t, patience), socksclient.Dialer{Proxy: socks}, shared.target.Addr(target.Source), 1<<16); err != nil {
		t.Fatal(err)
	}
	circuits := info(t, c, "circuit-status")
	family := strings.ToUpper(nw.Node("relay0").ID.RSA.String())
	if !strings.Contains(circuits, " BUILT ") || strings.Contains(circuits, print) || strings.Contains(circuits, family) {
		t.Errorf("the circuits of the client beside the relay:\n%s", circuits)
	}

	if err := end(t, relay.cmd, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Opened OR listener connection (ready) on 127.0.0.1:", "identity key fingerprint is 'movedrelay " + print + "'", "Clean shutdown finished. Exiting."} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	for _, tor := range []string{own, program} {
		if after, err := torIdentity(tor, torrc); err != nil || after != before {
			t.Errorf("%s: %q, %v; before, it was %q", tor, after, err, before)
		}
	}
}

// TestTorBridge: an operator's torrc for an obfs4 bridge runs under chive by the name tor, and C tor's client comes through it.
func TestTorBridge(t *testing.T) {
	nw := network(t, "vanilla")
	obfs4, program, dir := obfs4proxy(t), torProgram(t), t.TempDir()
	torrc := filepath.Join(dir, "torrc")
	text := fmt.Sprintf("BridgeRelay 1\nORPort 127.0.0.1:auto\nAssumeReachable 1\nAddress 127.0.0.1\nServerTransportPlugin obfs4 exec %s\n"+
		"ServerTransportListenAddr obfs4 127.0.0.1:%s\nExtORPort auto\nContactInfo <address@email.com>\nNickname PickANickname\nBridgeDistribution none\n"+
		"DataDirectory DIR/data\nShutdownWaitLength 1 second\nSocksPort 0\nControlPort auto\nControlPortWriteToFile DIR/port\nCookieAuthentication 1\n", obfs4, leasedPort(t, nw)) + networkLines(nw)
	if err := os.WriteFile(torrc, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	tool(t, tor, "--verify-config", "-f", torrc)
	bridge := startTor(t, program, dir, torrc)
	c := bridge.control(t)
	var line string
	await(t, "the line for clients", patience, func() bool {
		s, err := c.GetInfo(bounded(t, patience), "chive/bridge-lines")
		line = strings.TrimSpace(s)
		return err == nil && line != ""
	})
	if !strings.HasPrefix(line, "obfs4 127.0.0.1:") || !strings.Contains(line, " cert=") {
		t.Fatalf("the bridge's line is %q", line)
	}
	n := stockClient(t, nw, "UseBridges 1", "Bridge "+line, "ClientTransportPlugin obfs4 exec "+obfs4)
	if err := download(bounded(t, patience), socksclient.Dialer{Proxy: n.SOCKS.String()}, shared.target.Addr(target.Source), 1<<20); err != nil {
		t.Fatal(err)
	}
	// The transport's keys are where C tor's are, so that the line stays the same.
	if _, err := os.Stat(filepath.Join(dir, "data", "pt_state", "obfs4_state.json")); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil || !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "hashed-fingerprint" }) {
		t.Errorf("%v, %v", files, err)
	}
	if err := end(t, bridge.cmd, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
