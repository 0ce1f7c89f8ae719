//go:build linux

package relay

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// cacheEnv makes the test binary a directory cache only. It names a folder with documents.
const cacheEnv = "CHIVE_TEST_CACHE"

// cacheHours is how many consensuses the cache has had, one for each hour.
const cacheHours = 72

// writePublicDirectory makes up three days of the public network: consensuses, and the microdescriptors of the last one.
func writePublicDirectory(t *testing.T, dir string) {
	t.Helper()
	start := time.Now().Truncate(time.Hour).Add(-cacheHours * time.Hour)
	n, err := dirgen.New(dirgen.Options{Relays: 9000, Authorities: 9, ValidAfter: start})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cacheHours + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), n.Consensus, 0o600); err != nil {
			t.Fatal(err)
		}
		n.Churn(0.005)
		if err := n.Publish(start.Add(time.Duration(i+1) * time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for digest, text := range n.ByDigest {
		name := "m" + hex.EncodeToString(digest[:])
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fetched asks as a client does, and returns how much was sent.
func fetched(t *testing.T, c *dirCache, path string, headers ...string) int {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- c.server.Serve(context.Background(), &onlyConn{Conn: far})
	}()
	if _, err := io.WriteString(near, "GET "+path+" HTTP/1.0\r\nAccept-Encoding: x-zstd\r\n"+strings.Join(headers, "")+"\r\n"); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(near)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.0 200 ") {
		t.Fatalf("%.80q, %v", b, err)
	}
	<-done // its error is that there is no second connection
	return len(b)
}

// onlyConn is a listener with one connection.
type onlyConn struct {
	net.Conn
	taken bool
}

func (c *onlyConn) Addr() net.Addr { return c.LocalAddr() }

// Close closes the listener only.
func (c *onlyConn) Close() error { return nil }

func (c *onlyConn) Accept() (net.Conn, error) {
	if c.taken {
		return nil, net.ErrClosed
	}
	c.taken = true
	return c.Conn, nil
}

// TestCacheProcess is that cache. It prints what it takes.
func TestCacheProcess(t *testing.T) {
	dir := os.Getenv(cacheEnv)
	if dir == "" {
		t.Skip("a part of TestCacheOfPublicSize")
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	start := func() *dirCache {
		c := newDirCache(dirserver.Config{Log: slog.New(slog.DiscardHandler)}, func() *netdir.Directory { return nil }, nil)
		if err := c.docs.KeepIn(filepath.Join(dir, earlierFolder), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	part := func(what string, f func()) {
		before := processorTime(t)
		f()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("cache: %s: %v of a processor, %d MB live, %d MB resident\n", what, (processorTime(t) - before).Round(100*time.Microsecond), m.HeapAlloc/1e6, resident(t)/1e6)
	}
	debug.FreeOSMemory()
	c := start()
	part("nothing", func() {})
	part("72 consensuses", func() {
		for i := range cacheHours {
			c.KeepConsensus(read(fmt.Sprintf("%03d", i)))
		}
	})
	c = start()
	part("restarted, with the last consensus", func() { c.KeepConsensus(read(fmt.Sprintf("%03d", cacheHours-1))) })
	part("the next one", func() { c.KeepConsensus(read(fmt.Sprintf("%03d", cacheHours))) })
	var names []string
	part("the microdescriptors", func() {
		all, err := filepath.Glob(filepath.Join(dir, "m*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			c.KeepMicrodesc(read(filepath.Base(name)))
			digest, err := hex.DecodeString(filepath.Base(name)[1:])
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, base64.RawStdEncoding.EncodeToString(digest))
		}
	})
	sent := 0
	part("a bootstrap", func() {
		sent += fetched(t, c, "/tor/status-vote/current/consensus-microdesc")
		for batch := range slices.Chunk(names, 90) {
			sent += fetched(t, c, "/tor/micro/d/"+strings.Join(batch, "-"))
		}
	})
	fmt.Printf("cache: the bootstrap was %d kB\n", sent/1000)
	part("diffs from the last 71", func() {
		for i := range cacheHours - 1 {
			sum, err := netdoc.SHA3Signed(read(fmt.Sprintf("%03d", 1+i)))
			if err != nil {
				t.Fatal(err)
			}
			fetched(t, c, "/tor/status-vote/current/consensus-microdesc", "X-Or-Diff-From-Consensus: "+hex.EncodeToString(sum[:])+"\r\n")
		}
	})
	made := c.server.Stats().DiffsMade.Load()
	files, err := os.ReadDir(filepath.Join(dir, earlierFolder))
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	fmt.Printf("cache: %d diffs, %d files of %d kB\n", made, len(files), size/1000)
	if made != cacheHours-1 || len(files) != cacheHours+1 {
		t.Error("diffs or files are missing")
	}
}

// TestCacheOfPublicSize measures a cache with three days of the public network's consensuses.
func TestCacheOfPublicSize(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" || raceDetector {
		t.Skip("SKIPPED, NOTHING WAS MEASURED: it makes 73 consensuses of 9,000 relays; CHIVE_LONG=1 runs it, in a minute")
	}
	dir := t.TempDir()
	writePublicDirectory(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestCacheProcess$")
	cmd.Env = append(os.Environ(), cacheEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
