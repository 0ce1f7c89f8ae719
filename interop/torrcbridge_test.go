package interop

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestBridgeOfTorrc: an operator's torrc for an obfs4 bridge, which C tor takes, becomes a file with which
// a bridge starts, and C tor's client comes through it.
func TestBridgeOfTorrc(t *testing.T) {
	nw := network(t, "vanilla")
	obfs4 := obfs4proxy(t)
	bin, dir := command(t), t.TempDir()
	file, made := filepath.Join(dir, "torrc"), filepath.Join(dir, "relay.toml")
	// As it stands in internal/cli/testdata/torrc, on loopback and with the options that a test needs.
	text := fmt.Sprintf("BridgeRelay 1\nORPort 127.0.0.1:auto\nAssumeReachable 1\nAddress 127.0.0.1\nServerTransportPlugin obfs4 exec %s\n"+
		"ServerTransportListenAddr obfs4 127.0.0.1:%s\nExtORPort auto\nContactInfo <address@email.com>\nNickname PickANickname\nBridgeDistribution none\nDataDirectory %s\nShutdownWaitLength 1 second\n",
		obfs4, leasedPort(t, nw), filepath.Join(dir, "data"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	tool(t, tor, "--verify-config", "-f", file)
	netFile, err := nw.WriteNetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	tool(t, bin, "config", "import", "--strict", "--out", made, file)
	if got := tool(t, bin, "config", "check", "relay", "--config", made, "--network", netFile); got != "ok\n" {
		t.Errorf("config check says %q", got)
	}
	cmd := exec.Command(bin, "relay", "--config", made, "--network", netFile)
	cmd.Stderr = &noPanics{t: t}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	watchdog := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	line, ready := "", false
	for s := bufio.NewScanner(out); !ready && s.Scan(); {
		if l, ok := strings.CutPrefix(s.Text(), "bridge "); ok {
			line = l
		}
		ready = s.Text() == "ready"
	}
	if !ready || !strings.HasPrefix(line, "obfs4 127.0.0.1:") {
		t.Fatalf("the bridge's line is %q", line)
	}
	n := stockClient(t, nw, "UseBridges 1", "Bridge "+line, "ClientTransportPlugin obfs4 exec "+obfs4)
	if err := download(bounded(t, patience), socksclient.Dialer{Proxy: n.SOCKS.String()}, shared.target.Addr(target.Source), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := end(t, cmd, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
