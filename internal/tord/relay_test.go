package tord

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/torrc"
)

// aRelay is a relay that nobody tests and that has no other.
const aRelay = deadNetwork + "SocksPort 0\nControlPort unix:DIR/s\nNickname arelay\nORPort 127.0.0.1:auto\nAddress 127.0.0.1\nAssumeReachable 1\nExitRelay 0\nShutdownWaitLength 60\n"

// openRelay starts a program that is a relay.
func openRelay(t *testing.T, torrc string) (*running, *controller, string) {
	t.Helper()
	r := start(t, torrc)
	port := r.out.wait(t, `Opened OR listener connection \(ready\) on 127\.0\.0\.1:(\d+)\n`)
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	c := dial(t, "unix", r.dir+"/s")
	c.want("AUTHENTICATE", "250 OK")
	return r, c, port
}

// TestRelay: what a controller asks a relay, sets, and sees; its identity stays.
func TestRelay(t *testing.T) {
	r, c, port := openRelay(t, aRelay+"AccountingMax 1 GB\n")
	print := r.out.wait(t, `Your Tor server's identity key fingerprint is 'arelay ([0-9A-F]{40})'\n`)
	for _, x := range [][2]string{
		{"GETINFO fingerprint", "250-fingerprint=" + print + "\n250 OK"},
		{"GETINFO address address/v4", "250-address=127.0.0.1\n250-address/v4=127.0.0.1\n250 OK"},
		{"GETINFO address/v6", "551 Address unknown"},
		{"GETINFO net/listeners/or net/listeners/dir", "250-net/listeners/or=\"127.0.0.1:" + port + "\"\n250-net/listeners/dir=\n250 OK"},
		{"GETINFO exit-policy/full exit-policy/ipv4 exit-policy/ipv6", "250-exit-policy/full=reject *:*\n250-exit-policy/ipv4=reject *:*\n250-exit-policy/ipv6=reject *:*\n250 OK"},
		{"GETINFO exit-policy/none", `552 Unrecognized key "exit-policy/none"`},
		{"GETINFO accounting/enabled accounting/hibernating accounting/bytes accounting/bytes-left", "250-accounting/enabled=1\n250-accounting/hibernating=awake\n250-accounting/bytes=0 0\n250-accounting/bytes-left=1073741824 1073741824\n250 OK"},
		{"GETINFO accounting/none", `552 Unrecognized key "accounting/none"`},
		{"GETINFO status/reachability-succeeded chive/bridge-lines", "250-status/reachability-succeeded=OR=1 DIR=1\n250-chive/bridge-lines=\n250 OK"},
		{"GETINFO desc/id/" + strings.Repeat("0", 40), `552 Unrecognized key "desc/id/` + strings.Repeat("0", 40) + `"`},
		{"GETINFO dir/server/none", "551 Key not recognized"},
		{"GETINFO desc/download-enabled", "250-desc/download-enabled=1\n250 OK"},
		{"GETCONF ORPort Nickname", "250-ORPort=127.0.0.1:auto\n250 Nickname=arelay"},
		{"SETCONF ContactInfo=\"a@b.example\" ExitRelay=1 ExitPolicy=\"accept *:80\"", "250 OK"},
		{"SETCONF Nickname=\"a b\"", ""},
		{"GETCONF Nickname", "250 Nickname=arelay"},
		{"SETCONF BandwidthRate=1000", ""},
		{"GETINFO net/listeners/or", "250-net/listeners/or=\"127.0.0.1:" + port + "\"\n250 OK"}, // it has not begun again
	} {
		if got := c.ask(x[0]); x[1] == "" && !strings.HasPrefix(got, "513 Unacceptable option value: ") || x[1] != "" && got != x[1] {
			t.Errorf("%s: %q, want %q", x[0], got, x[1])
		}
	}
	fresh := c.ask("GETINFO status/fresh-relay-descs")
	for _, want := range []string{"\nrouter arelay 127.0.0.1 " + port + " 0 0\n", "\ncontact a@b.example\n", "\naccept *:80\n", "\nextra-info arelay " + print + "\n"} {
		if !strings.Contains(fresh, want) {
			t.Errorf("the descriptors lack %q:\n%s", want, fresh)
		}
	}
	if got := c.ask("GETINFO exit-policy/ipv4"); !strings.Contains(got, "\nreject 10.0.0.0/8:*\n") || !strings.Contains(got, "\naccept *:80\n") {
		t.Errorf("%s", got)
	}
	if got := c.ask("GETINFO exit-policy/ipv6"); !strings.Contains(got, "reject6 *:*\n") {
		t.Errorf("%s", got)
	}
	await := regexp.MustCompile(`(?m)^router arelay `)
	for len(await.FindAllString(c.ask("GETINFO dir/server/authority"), -1)) == 0 { // the first descriptor is made by a goroutine
	}
	if got := c.ask("GETINFO dir/server/fp/" + print + "+" + strings.ToLower(print) + "+x"); len(await.FindAllString(got, -1)) != 1 {
		t.Errorf("%s", got)
	}
	// Another nickname is another relay with the same keys.
	c.want("SETCONF Nickname=another", "250 OK")
	c.want("GETINFO fingerprint", "250-fingerprint="+print+"\n250 OK")
	for name, want := range map[string]string{"fingerprint": "another " + print + "\n", "fingerprint-ed25519": "", "keys/secret_id_key": "", "keys/ed25519_master_id_secret_key": ""} {
		if b, err := os.ReadFile(filepath.Join(r.dir, "data", name)); err != nil || want != "" && string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	// One without a nickname has the usual one, and GETCONF knows it.
	c.want("SETCONF Nickname", "250 OK")
	c.want("GETCONF Nickname", "250 Nickname=Unnamed")
	if got := c.ask("GETINFO config-text status/fresh-relay-descs"); !strings.Contains(got, "\nNickname Unnamed\n") || !strings.Contains(got, "\nrouter Unnamed ") {
		t.Errorf("%s", got)
	}
	c.want("SETCONF Nickname=arelay", "250 OK")
	// It ends while the client goes on, and comes back.
	if got := c.ask("SETCONF ORPort=0"); !strings.HasPrefix(got, "513 Unacceptable option value: AccountingMax ") {
		t.Errorf("%s", got)
	}
	c.want("SETCONF ORPort=0 AccountingMax=0", "250 OK")
	c.want("GETINFO fingerprint", "551 Not running in server mode")
	c.want("GETINFO net/listeners/or", "250-net/listeners/or=\n250 OK")
	c.want("SETCONF ORPort=127.0.0.1:auto DisableNetwork=1", "250 OK")
	c.want("GETINFO net/listeners/or", "250-net/listeners/or=\n250 OK")
	c.want("SETCONF DisableNetwork=0", "250 OK")
	c.want("GETINFO fingerprint", "250-fingerprint="+print+"\n250 OK")
	// Nothing is open, so that it ends at once in spite of ShutdownWaitLength.
	r.signals <- os.Interrupt
	if code := <-r.code; code != exitOK {
		t.Error(code)
	}
	r.out.wait(t, `will shut down in 60 seconds\. Interrupt again to exit now\.`)
	r.out.wait(t, `Clean shutdown finished\. Exiting\.`)
	if err := os.Remove(filepath.Join(r.dir, "data", "fingerprint")); err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`^arelay ((?:[0-9A-F]{4} ){9}[0-9A-F]{4})\n$`)
	if out := again(t, r.dir, "--list-fingerprint"); listed.FindStringSubmatch(out) == nil || strings.ReplaceAll(listed.FindStringSubmatch(out)[1], " ", "") != print {
		t.Errorf("--list-fingerprint prints %q, and the relay was %s", out, print)
	}
	if b, err := os.ReadFile(filepath.Join(r.dir, "data", "fingerprint")); err != nil || string(b) != "arelay "+print+"\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// again runs the program once more with the torrc of one before.
func again(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out := newOutput()
	p := Program{Args: append([]string{"-f", filepath.Join(dir, "torrc")}, args...), Stdin: strings.NewReader(""), Stdout: out, Signals: make(chan os.Signal)}
	if code := p.Run(t.Context()); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	return out.String()
}

// TestRelayEvents: STATUS_SERVER says what becomes of a relay, and TERM ends it at once.
func TestRelayEvents(t *testing.T) {
	r, c, port := openRelay(t, strings.Replace(aRelay, "AssumeReachable 1\n", "", 1))
	c.want("SETEVENTS STATUS_SERVER", "250 OK")
	if l, err := c.in.ReadString('\n'); err != nil || l != "650 STATUS_SERVER NOTICE CHECKING_REACHABILITY ORADDRESS=127.0.0.1:"+port+"\r\n" {
		t.Errorf("%q, %v", l, err)
	}
	c.want("GETINFO status/reachability-succeeded/or", "250-status/reachability-succeeded/or=0\n250 OK")
	r.signals <- syscall.SIGTERM
	if code := <-r.code; code != exitOK {
		t.Error(code)
	}
}

// TestBridge: a bridge says by what line clients find it, and the log does not.
func TestBridge(t *testing.T) {
	r, c, port := openRelay(t, aRelay+"BridgeRelay 1\nBridgeDistribution none\nPublishServerDescriptor 0\n")
	hidden := r.out.wait(t, `Your Tor bridge's hashed identity key fingerprint is 'arelay ([0-9A-F]{40})'\n`)
	print := strings.TrimSuffix(strings.TrimPrefix(c.ask("GETINFO fingerprint"), "250-fingerprint="), "\n250 OK")
	if hidden == print || hashed(print) != hidden {
		t.Errorf("the hashed fingerprint of %s is %s", print, hidden)
	}
	for !strings.HasPrefix(c.ask("GETINFO chive/bridge-lines"), "250") {
		// its lines come from a goroutine of its own
	}
	if got := c.ask("GETINFO chive/bridge-lines"); !strings.Contains(got, "127.0.0.1:"+port+" "+print) {
		t.Errorf("%s", got)
	}
	if strings.Contains(r.out.String(), print) {
		t.Errorf("the log has the bridge's fingerprint:\n%s", r.out)
	}
}

// TestRelayPlans: what becomes of options of relays.
func TestRelayPlans(t *testing.T) {
	base := deadNetwork + "DataDirectory /nonexistent/x\nAddress 127.0.0.1\n"
	for _, x := range []struct{ torrc, settings, note string }{
		{"ORPort 9001 IPv4Only", "orport=[9001]", ""},
		{"ORPort 127.0.0.1:1\nNickname a", "nickname=a", ""},
		{"ORPort 127.0.0.1:1\nPublishServerDescriptor 0", "no-publish=true", ""},
		{"ORPort 127.0.0.1:1\nDirCache 0", "no-dir-cache=true", ""},
		{"ORPort 127.0.0.1:1\nMaxMemInQueues 400 MB", "max-memory=314572800", ""},
		{"ORPort 127.0.0.1:1\nKeyDirectory /elsewhere", "key-dir=/elsewhere", ""},
		{"ORPort 127.0.0.1:1", "key-dir=/nonexistent/x/keys", ""},
		{"ORPort 127.0.0.1:1\nRelayBandwidthRate 1 MB\nRelayBandwidthBurst 2 MB", "bandwidth-burst=2097152", ""},
		{"ORPort 127.0.0.1:1\nBandwidthRate 1 MB", "bandwidth-rate=1048576", "BandwidthRate: it holds for the relay, and not for the client's traffic"},
		{"ORPort 127.0.0.1:1\nBridgeRelay 1", "bridge=true", "BridgeRelay: a bridge is not published to the bridge authority: only those to whom you give its lines know of it"},
		{"ORPort 127.0.0.1:1\nExtORPort 6001", "nickname=Unnamed", "ExtORPort: it has no effect here"},
		{"ORPort 0\nNickname a", "", "Nickname: it has no effect without an ORPort"},
		{"ORPort 9001\nClientOnly 1", "", "ORPort: it has no effect without an ORPort"},
	} {
		c := conf{}
		if err := c.add(linesOf(t, "torrc", base+x.torrc)); err != nil {
			t.Fatal(err)
		}
		p, err := planOf(c)
		if err != nil {
			t.Errorf("%s: %v", x.torrc, err)
			continue
		}
		if (p.relay != nil) != (x.settings != "") {
			t.Errorf("%s: a relay: %v", x.torrc, p.relay != nil)
			continue
		}
		if x.settings != "" {
			key, want, _ := strings.Cut(x.settings, "=")
			if got := p.relay.Texts(false)[key]; got != want {
				t.Errorf("%s: %s is %q", x.torrc, key, got)
			}
		}
		if x.note != "" && !strings.Contains(strings.Join(p.notes, "\n"), x.note) {
			t.Errorf("%s: %q", x.torrc, p.notes)
		}
	}
	// Without a network, nobody need know the address.
	for _, off := range []string{"0", "1"} {
		c := conf{"ORPort": {"9001"}, "DisableNetwork": {off}, "DataDirectory": {"/nonexistent/x"}}
		if _, err := planOf(c); err != nil && (off == "1" || !strings.Contains(err.Error(), "address")) {
			t.Errorf("DisableNetwork %s: %v", off, err)
		}
	}
	if six, ok := andSix("9001 NoAdvertise"); hasSix() && (!ok || six != "[::]:9001 NoAdvertise") {
		t.Errorf("%q, %v", six, ok)
	}
	for _, line := range []string{"9001 IPv4Only", "127.0.0.1:9001", "auto", "0", "", "9001 ipv6only"} {
		if six, ok := andSix(line); ok {
			t.Errorf("%s: %s", line, six)
		}
	}
}

// TestRelayOptions: package torrc makes something of each option that is obeyed with an ORPort.
func TestRelayOptions(t *testing.T) {
	n := 0
	for _, o := range allOptions() {
		if o.does != relayed {
			continue
		}
		n++
		if f := torrc.Find(o.name); f == nil || f.Key == "" && f.Why == "" {
			t.Errorf("%s: %+v", o.name, f)
		}
	}
	if n < 30 {
		t.Errorf("only %d options", n)
	}
}

// TestDrainPorts: while a relay drains, the ports of its client take nothing new, and are not listed; a connection that is there stays
// until the relay has ended.
func TestDrainPorts(t *testing.T) {
	l := slog.New(slog.DiscardHandler)
	c := conf{}
	if err := c.add(linesOf(t, "torrc", deadNetwork+"SocksPort auto\nDataDirectory "+t.TempDir())); err != nil {
		t.Fatal(err)
	}
	p, err := planOf(c)
	if err != nil {
		t.Fatal(err)
	}
	node, err := p.settings.Host(l, func(*client.Client) {})
	if err != nil {
		t.Fatal(err)
	}
	_, addr, _ := strings.Cut(node.Ports()[0], " ")
	there := dial(t, "tcp", addr)
	if _, err := there.Write([]byte("\x05\x01\x00")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(io.LimitReader(there, 2)); err != nil || string(b) != "\x05\x00" {
		t.Fatalf("%q, %v", b, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	program := &tor{logs: &logs{}, log: l, node: node, ctx: ctx}
	done := program.drainPorts(ctx)
	for {
		late, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		late.Close() // the listener closes in another goroutine
	}
	if got := node.Ports(); len(got) > 0 {
		t.Errorf("%q are listed", got)
	}
	select {
	case <-done:
		t.Error("the connection that was there has ended")
	default:
	}
	program.draining.Store(true)
	if err := program.changeLocked(p, c); err == nil || !strings.Contains(err.Error(), "the program ends") {
		t.Error(err)
	}
	cancel()
	<-done
	if b, err := io.ReadAll(there); err == nil && len(b) > 0 {
		t.Errorf("%q", b)
	}
	program.wg.Wait()
	if err := node.Close(); err != nil {
		t.Error(err)
	}
}
