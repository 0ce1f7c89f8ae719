package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// A process works if it has allocated workBytes within pauseEvery, and else it pauses.
	// After pauses for restEvery together it rests.
	pauseEvery = 200 * time.Millisecond
	workBytes  = 8 << 10
	restEvery  = 5 * time.Second
	// What must have been allocated since the last time: to collect garbage in a pause, and
	// to give memory back at rest.
	collectBytes = 128 << 10
	worthBytes   = 256 << 10
)

// rests looks after the memory of a client, which has little to do most of the time.
//
// In the pause after each burst of connections it collects the garbage. Otherwise the
// collector would run whenever the heap has grown by clientGC, and then a connection that
// is being opened would wait for it, some milliseconds on one processor.
//
// When the client comes to rest, it gives memory back. The start does not end when it is
// ready: it builds circuits ahead, and learns about its relays. Go's runtime keeps the pages
// of that garbage, a fifth of an idle client's memory, for what may come.
type rests struct {
	allocated func() uint64 // bytes that the process has allocated so far
	collect   func()
	giveBack  func()
}

// newRests returns nil for a node that is no client: a relay hardly ever rests. GOGC
// overrides what is done in pauses.
func newRests(r role, giveBack func()) *rests {
	if !isClient(r) {
		return nil
	}
	collect := runtime.GC
	if os.Getenv("GOGC") != "" {
		collect = func() {}
	}
	return &rests{allocated, collect, giveBack}
}

// allocated does not stop the process, unlike runtime.ReadMemStats.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// run follows what the process allocates, until ctx ends. While the process rests it looks
// every restEvery only.
func (r *rests) run(ctx context.Context) {
	if r == nil {
		return
	}
	t := time.NewTimer(pauseEvery)
	defer t.Stop()
	var calm time.Duration // how long the process has paused
	before := r.allocated()
	collected, given := before, before
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := r.allocated()
		worked := now-before >= workBytes
		switch {
		case worked:
			calm = 0
		case calm < restEvery:
			calm += pauseEvery
		}
		if !worked && now-collected >= collectBytes {
			r.collect()
			now = r.allocated()
			collected = now
		}
		if calm >= restEvery && now-given >= worthBytes {
			r.giveBack()
			now = r.allocated()
			collected, given = now, now
		}
		before = now
		if calm < restEvery {
			t.Reset(pauseEvery)
		} else {
			t.Reset(restEvery)
		}
	}
}
