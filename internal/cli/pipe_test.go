package cli

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReaderGone: a daemon goes on when nobody reads its log or its lines any more, as
// after "chive relay 2>&1 | head".
func TestReaderGone(t *testing.T) {
	dir := t.TempDir()
	network := filepath.Join(dir, "net.toml")
	if err := os.WriteFile(network, []byte("name = 'lab'\n[[authority]]\nnickname = 'a'\nv3ident = 'F533C81CEF0BC0267857C99B2F471ADF249FA232'\n"+
		"rsa = '2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C'\norport = ['127.0.0.1:9']\n[testing]\nallow_private_addresses = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := chiveCommand("relay", "--data-dir", filepath.Join(dir, "relay"), "--network", network, "--orport", "127.0.0.1:0", "--assume-reachable")
	out, both, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.Stdout, p.Stderr = both, both
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(daemonTime, func() { p.Process.Kill() })
	defer watchdog.Stop()
	defer p.Process.Kill()
	both.Close()
	for s := bufio.NewScanner(out); ; {
		if !s.Scan() {
			t.Fatal("it ended:", p.Wait())
		}
		if s.Text() == "ready" {
			break
		}
	}
	out.Close()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil { // it logs that it stops
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error("it did not end as it should:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "relay", "bandwidth.json")); err != nil {
		t.Error("it did not write what it keeps:", err)
	}
}
