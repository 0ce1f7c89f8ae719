package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// again repeats f, each time for at most twenty seconds, until it succeeds, and
// returns how long that took.
func again(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	began := time.Now()
	for {
		try, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := f(try)
		cancel()
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return time.Since(began), errors.Join(err, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// testGuardStopped kills the guards in the middle of a transfer: the transfer
// ends, and new connections work again soon.
func testGuardStopped(t *testing.T, s subject, nw *ctor.Network) {
	p := start(t, s, nw, startOptions{dir: t.TempDir()})
	ctx := bounded(t, 2*patience)
	c, err := dial(ctx, p.dialer(), shared.target.Addr(target.Source))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	guard := busiest(t, ctx, p, nw, c, target.MaxBytes)
	if err := guard.Kill(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := guard.Start(bounded(t, patience)); err != nil {
			t.Error(err)
		}
	}()
	// The source sends without end: if the stream ends, with or without an error,
	// the client has noticed.
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the stream did not end with its guard")
	}
	took, err := again(ctx, func(ctx context.Context) error {
		return download(ctx, p.dialer(), shared.target.Addr(target.Source), 100_000)
	})
	if err != nil {
		t.Fatalf("no new connection after %s was stopped: %v", guard.Name, err)
	}
	t.Logf("new connections work %v after %s was stopped", took.Round(time.Millisecond), guard.Name)
	if slices.Contains(p.firstHops(t, nw), guard) {
		t.Errorf("the client is connected to %s, which does not run", guard.Name)
	}
}

// busiest asks the source for size bytes, reads the first of them, and returns
// the first hop that they come from: the client is connected to others too, as
// its directory caches, and one of them may be the path's middle, so the
// client's own connections are asked.
func busiest(t *testing.T, ctx context.Context, p *proxy, nw *ctor.Network, source io.ReadWriter, size uint64) *ctor.Node {
	t.Helper()
	before := received(t, ctx, p.pid)
	if _, err := source.Write(binary.BigEndian.AppendUint64(nil, size)); err != nil {
		t.Fatal(err)
	}
	const n = 5 << 20
	if _, err := io.CopyN(io.Discard, source, n); err != nil {
		t.Fatal(err)
	}
	after := received(t, ctx, p.pid)
	var most *ctor.Node
	var bytes int64
	for _, node := range p.firstHops(t, nw) {
		var read int64
		for c, now := range after {
			if c.remote == node.OR || node.OR6.IsValid() && c.remote == node.OR6 {
				read += now - before[c]
			}
		}
		if read > bytes {
			most, bytes = node, read
		}
	}
	// There may be two legs.
	if bytes < n/4 {
		t.Fatalf("of %d bytes, %d came from one first hop", n, bytes)
	}
	return most
}

// received returns how many bytes the kernel has received on each TCP
// connection of a process.
func received(t *testing.T, ctx context.Context, pid int) map[conn]int64 {
	t.Helper()
	ss, err := exec.LookPath("ss")
	labtest.Need(t, "ss", err)
	text, err := exec.CommandContext(ctx, ss, "-HtinO", "state", "established").Output()
	if err != nil {
		t.Fatal(err)
	}
	conns, err := connsOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	out := map[conn]int64{}
	for line := range strings.Lines(string(text)) {
		// Recv-Q Send-Q Local Remote, then the connection's own figures.
		f := strings.Fields(line)
		if len(f) < 4 {
			t.Fatalf("ss printed %q", line)
		}
		local, lerr := netip.ParseAddrPort(f[2])
		remote, rerr := netip.ParseAddrPort(f[3])
		c := conn{local, remote}
		if lerr != nil || rerr != nil || !slices.Contains(conns, c) {
			continue // with a scope, or another process's
		}
		for _, field := range f[4:] {
			if v, ok := strings.CutPrefix(field, "bytes_received:"); ok {
				if out[c], err = strconv.ParseInt(v, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return out
}

// testAuthorityDown starts a client without anything cached while one of three
// authorities does not run.
func testAuthorityDown(t *testing.T, s subject, nw *ctor.Network) {
	down := nw.Node("auth0")
	if err := down.Kill(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := down.Start(bounded(t, patience)); err != nil {
			t.Error(err)
		}
	}()
	p := start(t, s, nw, startOptions{dir: t.TempDir()})
	testEcho(t, p)
}

// testRestart stops and starts a client three times with one data directory:
// its traffic goes through the same guard each time.
func testRestart(t *testing.T, s subject, nw *ctor.Network) {
	if s.quirks().manyGuards {
		t.Skip(s.name(), "spreads its circuits over several guards")
	}
	dir := t.TempDir()
	var guards []*ctor.Node
	for range 4 {
		p, err := s.start(bounded(t, patience), nw, startOptions{dir: dir, oneGuard: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := bounded(t, patience)
		c, err := dial(ctx, p.dialer(), shared.target.Addr(target.Source))
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, busiest(t, ctx, p, nw, c, 6<<20))
		c.Close()
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	if len(slices.Compact(slices.Clone(guards))) != 1 {
		t.Errorf("the guard was, start after start: %v", names(guards))
	}
}

// testStaleCache starts a client whose cached consensus has ended.
func testStaleCache(t *testing.T, s subject, nw *ctor.Network) {
	dir := t.TempDir()
	p, err := s.start(bounded(t, patience), nw, startOptions{dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	testEcho(t, p)
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	// Its cached consensus is not newer than the authority's present one.
	ctx := bounded(t, 2*patience)
	c, err := nw.Node("auth0").Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.GetInfo(ctx, "consensus/valid-until")
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	until, err := time.Parse(time.DateTime, v)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-time.After(time.Until(until) + time.Second):
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	p = start(t, s, nw, startOptions{dir: dir})
	testEcho(t, p)
}

// testForeignCache starts a client in the data directory of a client of another
// network, and in one with truncated files.
func testForeignCache(t *testing.T, s subject, other, nw *ctor.Network) {
	if s.quirks().keepsBadCache {
		t.Skip(s.name(), "does not get over a bad cache")
	}
	dir := t.TempDir()
	p, err := s.start(bounded(t, patience), other, startOptions{dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	t.Run("of another network", func(t *testing.T) {
		testEcho(t, start(t, s, nw, startOptions{dir: dir}))
	})
	cut := 0
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || filepath.Base(path) == "torrc" || info.Size() < 200 {
			return err
		}
		cut++
		return os.Truncate(path, info.Size()/2)
	})
	if err != nil || cut == 0 {
		t.Fatalf("%d files cut: %v", cut, err)
	}
	t.Run("cut off", func(t *testing.T) {
		testEcho(t, start(t, s, nw, startOptions{dir: dir}))
	})
}
