package interop

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/target"
)

// served runs "chive onion serve" until a stock client has got a page from it. Its
// address comes before anything else, and the rest once clients can connect.
func served(t *testing.T, nw *ctor.Network) {
	file, err := nw.WriteNetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	if err := os.Mkdir(site, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(site, "index.html"), []byte("a page"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command(t), "onion", "serve", "--network", file, "--data-dir", dir+"/client", "--key-dir", dir+"/service",
		"--sandbox", "auto", "--dir", site, "81="+shared.target.Addr(target.Web))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &noPanics{t: t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if said = append(said, lines.Text()); lines.Text() == "ready" {
			break
		}
	}
	if len(said) < 3 || !strings.HasPrefix(said[0], "onion ") || said[len(said)-2] != "published" || said[len(said)-1] != "ready" {
		t.Fatalf("it said %q", said)
	}
	address := strings.TrimPrefix(said[0], "onion ")
	if sum, n := fetchHosted(t, nw.Node("client0").SOCKS, fmt.Sprintf("http://%s:81/bytes/1000", address)); n != 1000 || sum != target.Sum(1000) {
		t.Errorf("%d bytes", n)
	}
	if sum, n := fetchHosted(t, nw.Node("client0").SOCKS, fmt.Sprintf("http://%s/", address)); n != 6 || sum != sha256.Sum256([]byte("a page")) {
		t.Errorf("%d bytes of the folder", n)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Errorf("it said %q at the end", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
