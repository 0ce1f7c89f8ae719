package daemon

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCollectOften: a client of any kind collects garbage sooner, others do not.
func TestCollectOften(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, c := range []struct {
		role role
		want int
	}{{new(proxyRole), clientGC}, {new(onionRole), clientGC}, {new(relayRole), 100}, {new(authorityRole), 100}} {
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

// TestGiveBack: the program still runs after its pages were given back.
func TestGiveBack(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	code, err := findProgram()
	if err != nil {
		t.Fatal(err)
	}
	giveBack(code, log)
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

// TestRests: a client gives memory back when it has allocated much and then rests, once.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total, given atomic.Uint64
		r := &rests{total.Load, func() { given.Add(1) }}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx)
		}()
		synctest.Wait()
		for i, c := range []struct {
			more uint64 // allocated in restEvery
			want uint64
		}{
			{0, 0},
			{restBytes - 1, 0},  // little
			{worthBytes, 0},     // busy
			{4 * worthBytes, 0}, // still busy
			{1000, 1},           // rests
			{1000, 1},           // nothing new to give back
			{worthBytes, 1},
			{restBytes, 1},
			{restBytes - 1, 2},
			{restBytes, 2},
			{worthBytes - 3*restBytes, 2},
			{restBytes - 1, 2}, // rests, with too little to give back
			{restBytes - 1, 2},
			{2, 3}, // little at a time is much in the end
			{0, 3},
		} {
			total.Add(c.more)
			time.Sleep(restEvery)
			synctest.Wait()
			if got := given.Load(); got != c.want {
				t.Errorf("step %d: %d times, want %d", i, got, c.want)
			}
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
