package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/account"
)

// ownMemory is the memory that a process may use for itself, without what others
// make it hold, in bytes: with the program's code it stays below 64 MB. The directory of the
// public network comes to that.
const ownMemory = 36 << 20

// heapLimit makes the garbage collector run more often when the process comes near the sum of
// maxMemory and ownMemory. Otherwise the heap would grow far beyond what is live. What the process has
// outside Go's heap (account.Outside), the heap must not have too.
//
// Go's limit counts all that its runtime has: the directory and stacks, which nobody's account
// counts, too. If these, with what is live, come to more than the limit, then the collector
// would run again and again and free nothing. So the limit is never less than what is there, with
// some room for garbage. GOMEMLIMIT overrides all this. The zero value is ready to use.
type heapLimit struct {
	mu      sync.Mutex // guards what follows
	least   int64      // that maxMemory asks for; 0: nobody has said it yet
	outside int64      // bytes outside the heap that least counts
	set     int64      // the limit in use
}

// keep sets the bound on what others can make the process hold, in bytes; 0: the default.
//
// It also gives the memory back that reading the settings took: files with countries are
// long.
func (h *heapLimit) keep(maxMemory uint64) {
	if maxMemory == 0 {
		maxMemory = chive.DefaultMaxMemory
	}
	h.mu.Lock()
	h.least, h.set = int64(maxMemory)+ownMemory, 0
	h.mu.Unlock()
	account.HearOutside(h.hear) // now, too
	debug.FreeOSMemory()
}

// hear takes note of the memory outside the heap.
func (h *heapLimit) hear(outside int64) {
	h.mu.Lock()
	h.outside = outside
	h.mu.Unlock()
	h.adjust()
}

// adjust sets the limit by what the last collection found.
func (h *heapLimit) adjust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if os.Getenv("GOMEMLIMIT") != "" || h.least == 0 {
		return
	}
	want := max(h.least-h.outside, leastLimit(heapNow()))
	// The whole program stops for some microseconds to change it.
	if want > h.set || want < h.set-h.set/64 {
		debug.SetMemoryLimit(want)
		h.set = want
	}
}

// leastLimit is the limit with which the collector runs each time when a seventh of what is
// live was allocated, at the most. live is what the last collection found, in bytes, and rest what the runtime has
// besides the heap. It is a sixth here, of which the runtime keeps some hundredths for itself.
func leastLimit(live, rest uint64) int64 { return int64(rest + live + live/6) }

// heapNow returns the bytes of the heap that were live at the last collection, and the
// bytes that Go's limit counts besides the heap: stacks, tables, and pages that are
// partly used.
func heapNow() (live, rest uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(s)
	rest = s[1].Value.Uint64()
	for _, less := range s[2:] {
		rest -= less.Value.Uint64()
	}
	return s[0].Value.Uint64(), rest
}

// follow adjusts the limit after each collection, until ctx ends.
func (h *heapLimit) follow(ctx context.Context) {
	for {
		collected := make(chan struct{}, 1)
		afterCollection(collected)
		h.adjust()
		select {
		case <-collected:
		case <-ctx.Done():
			return
		}
	}
}

// afterCollection sends to c once, when the next collection is over.
func afterCollection(c chan<- struct{}) {
	// Nobody uses the object any more, so that the next collection finds it. Smaller objects
	// without pointers could share their memory with one in use.
	garbage := &struct{ _ [4]*int }{}
	runtime.AddCleanup(garbage, func(c chan<- struct{}) { c <- struct{}{} }, c)
}
