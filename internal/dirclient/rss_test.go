package dirclient

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// These tell the process that TestRSS9000 starts what to load: a cache, and
// where the network's caches listen.
const (
	childDir  = "CHIVE_TEST_RSS_DIR"
	childAddr = "CHIVE_TEST_RSS_ADDR"
)

// tcpCaches is a Dialer of caches behind one TCP address.
type tcpCaches string

func (a tcpCaches) OpenDir(ctx context.Context, _ Query) (Stream, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", string(a))
	return Stream{ReadWriteCloser: conn, Cache: cacheID(0)}, err
}

func (tcpCaches) ReportDir(ident.RelayID, Purpose, error) {}

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

// TestRSS9000 gets the directory of 9,000 relays from a cache on disk, and
// from the network, in processes of their own, and holds them to a budget of
// memory.
func TestRSS9000(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		loadAndReport(t, dir, os.Getenv(childAddr))
		return
	}
	if testing.Short() || raceDetector || runtime.GOOS != "linux" {
		t.Skip("makes 9,000 relays, reads /proc, and means nothing with the race detector")
	}
	n, err := dirgen.New(dirgen.Options{Relays: 9000, Authorities: 9, ValidAfter: time.Now().Truncate(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(n)
	w.coding = "x-zstd"
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go w.serve(0, conn, Query{})
		}
	}()
	full, empty := t.TempDir(), t.TempDir()
	for name, b := range map[string][]byte{consensusFile: n.Consensus, certsFile: n.Certs, microFile: n.Microdescs} {
		if err := os.WriteFile(filepath.Join(full, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(empty, certsFile), n.Certs, 0o600); err != nil { // only to name the authorities
		t.Fatal(err)
	}
	measure(t, "from disk", full, l.Addr().String(), 15)
	measure(t, "from the network", empty, l.Addr().String(), 30)
}

// measure runs a child and checks what it says.
func measure(t *testing.T, what, dir, addr string, limit float64) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^TestRSS9000$", "-test.v")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childAddr+"="+addr)
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
	t.Logf("%s: RSS %.1f MB before, %.1f MB with the directory, %.1f MB at the peak; ready in %d ms", what, before, after, peak, took)
	if after-before > limit || peak > 50 {
		t.Errorf("%s: the directory takes %.1f MB (over %.0f), or the peak is %.1f MB (over 50)", what, after-before, limit, peak)
	}
}

func loadAndReport(t *testing.T, dir, addr string) {
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
	c := New(Config{Network: nw, Dir: dir, Dialer: tcpCaches(addr)})
	start := time.Now()
	stop := run(t, c)
	wait(t, c)
	took := time.Since(start)
	for {
		changed := c.Changed()
		if len(c.Directory().MissingMicrodescs()) == 0 {
			break
		}
		<-changed
	}
	after, err := status("VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	peak, err := status("VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	fmt.Printf("rss %.1f %.1f peak %.1f ms %d\n", before, after, peak, took.Milliseconds())
	runtime.KeepAlive(c)
}
