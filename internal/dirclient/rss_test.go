package dirclient

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// childDir names, to the process that TestRSS9000 starts, the cache to load.
const childDir = "CHIVE_TEST_RSS_DIR"

// status returns a field of /proc/self/status, in megabytes.
func status(field string) (float64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field+":" {
			kb, err := strconv.Atoi(f[1])
			return float64(kb) / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s", field)
}

// TestRSS9000 loads the directory of 9,000 relays from a cache on disk in a
// process of its own, and holds that process to a budget of memory.
func TestRSS9000(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		loadAndReport(t, dir)
		return
	}
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("makes 9,000 relays and reads /proc")
	}
	n, err := dirgen.New(dirgen.Options{Relays: 9000, Authorities: 9, ValidAfter: time.Now().Truncate(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{consensusFile: n.Consensus, certsFile: n.Certs, microFile: n.Microdescs} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^TestRSS9000$", "-test.v")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var before, after, peak float64
	var took int
	i := strings.Index(string(out), "rss ")
	if i < 0 {
		t.Fatalf("%s", out)
	}
	if _, err := fmt.Sscanf(string(out[i:]), "rss %f %f peak %f ms %d", &before, &after, &peak, &took); err != nil {
		t.Fatal(err)
	}
	t.Logf("RSS %.1f MB before, %.1f MB with the directory, %.1f MB at the peak; loaded and verified in %d ms", before, after, peak, took)
	if after-before > 15 || peak > 50 {
		t.Errorf("the directory takes %.1f MB (over 15), or the peak is %.1f MB (over 50)", after-before, peak)
	}
}

func loadAndReport(t *testing.T, dir string) {
	certs, err := os.ReadFile(filepath.Join(dir, certsFile))
	if err != nil {
		t.Fatal(err)
	}
	nw := &netdir.Network{Name: "child"}
	netdoc.ParseAuthCerts(certs, func(c *netdoc.AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		nw.Authorities = append(nw.Authorities, netdir.Authority{V3Ident: c.Identity})
	})
	before, err := status("VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Network: nw, Dir: dir})
	start := time.Now()
	c.Load()
	took := time.Since(start)
	after, err := status("VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	peak, err := status("VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	d := c.Directory()
	if d == nil || d.Usability().Have != 9000 {
		t.Fatal("it was not loaded")
	}
	fmt.Printf("rss %.1f %.1f peak %.1f ms %d\n", before, after, peak, took.Milliseconds())
	runtime.KeepAlive(c)
}
