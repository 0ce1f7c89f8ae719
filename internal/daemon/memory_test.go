package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// TestCollectOften: a client of any kind and a relay collect garbage sooner, others do not.
func TestCollectOften(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, c := range []struct {
		role role
		want int
	}{{new(proxyRole), clientGC}, {new(onionRole), clientGC}, {new(relayRole), relayGC}, {new(authorityRole), 100}} {
		debug.SetGCPercent(100)
		collectOften(c.role)
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("%T: %d", c.role, got)
		}
	}
	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	collectOften(new(proxyRole))
	if got := debug.SetGCPercent(100); got != 70 {
		t.Errorf("GOGC is overridden by %d", got)
	}
}

// TestReloadMemoryLimit: the collector's limit follows the bound on memory that is in use,
// not one that waits for the next start.
func TestReloadMemoryLimit(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, c := range map[string]struct {
		make func() *Settings
		more string
		want int64
	}{"proxy": {NewProxySettings, "", 1 << 30}, "relay": {NewRelaySettings, "orport = '192.0.2.1:9001'", 512 << 20}} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		write := func(bound int) {
			if err := os.WriteFile(file, fmt.Appendf(nil, "data-dir = %q\nmax-memory = %d\n%s", dir, bound, c.more), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(1 << 30)
		s := c.make()
		if err := s.Load(file); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		p := &Process{Settings: s, node: &reloader{}, inEffect: s.Texts(false), level: new(slog.LevelVar), log: slog.New(slog.NewTextHandler(&said, nil))}
		p.heap.keep(s.role.maxMemory())
		write(512 << 20)
		p.reload()
		if got := debug.SetMemoryLimit(-1); got != c.want+ownMemory || !strings.Contains(said.String(), "max-memory") {
			t.Errorf("%s: the limit is %d, not %d: %s", name, got, c.want+ownMemory, said.String())
		}
	}
}

// TestLimitWithoutOutside: what the process has outside Go's heap, the heap does not have too.
func TestLimitWithoutOutside(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	defer account.HearOutside(nil)
	account.Outside(30 << 20)
	var h heapLimit
	h.keep(512 << 20) // far above what this process has
	if got := debug.SetMemoryLimit(-1); got != 482<<20+ownMemory {
		t.Errorf("the limit is %d with 30 MiB outside", got)
	}
	account.Outside(-30 << 20)
	if got := debug.SetMemoryLimit(-1); got != 512<<20+ownMemory {
		t.Errorf("the limit is %d with none", got)
	}
}

// TestRests: a client collects garbage when it has allocated much and then pauses, and gives
// memory back when it rests, each once.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total, collected, given atomic.Uint64
		r := &rests{total.Load, func() { collected.Add(1) }, func() { given.Add(1) }}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx)
		}()
		synctest.Wait()
		const pause = restEvery - pauseEvery
		for i, c := range []struct {
			more             uint64 // allocated before the time passes
			pass             time.Duration
			collected, given uint64
		}{
			{workBytes, pauseEvery, 0, 0},
			{0, pauseEvery, 0, 0},             // pauses, with too little to collect
			{collectBytes, pauseEvery, 0, 0},  // works
			{collectBytes, pauseEvery, 0, 0},  // still
			{workBytes - 1, pauseEvery, 1, 0}, // pauses
			{workBytes - 1, pauseEvery, 1, 0}, // nothing new
			{0, pause - 2*pauseEvery, 1, 0},   // not long enough for a rest
			{0, pauseEvery, 1, 1},             // rests
			{0, 2 * restEvery, 1, 1},          // nothing new to give back
			{worthBytes, 3 * restEvery, 2, 2}, // works, and rests
			{collectBytes, 3 * restEvery, 3, 2},
		} {
			total.Add(c.more)
			time.Sleep(c.pass)
			synctest.Wait()
			if n, g := collected.Load(), given.Load(); n != c.collected || g != c.given {
				t.Errorf("step %d: collected %d times, given back %d times; want %d, %d", i, n, g, c.collected, c.given)
			}
		}
		for range worthBytes / workBytes { // little at a time is much in the end
			total.Add(workBytes - 1)
			time.Sleep(restEvery)
		}
		synctest.Wait()
		if given.Load() != 3 {
			t.Error("what was allocated little at a time stays")
		}
		stop()
		<-ended
	})
	for _, r := range []role{new(relayRole), new(authorityRole)} {
		if newRests(r, nil) != nil {
			t.Errorf("%T rests", r)
		}
	}
	for _, r := range []role{new(proxyRole), new(onionRole)} {
		n := newRests(r, nil)
		if n == nil || n.allocated() == 0 {
			t.Errorf("%T does not rest", r)
		}
	}
	newRests(new(relayRole), nil).run(t.Context()) // returns
}
