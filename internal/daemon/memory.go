package daemon

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/chivenet/chive"
)

// ownMemory is the memory that a process may use for itself, without what others
// make it hold, in bytes: with the program's code it stays below 64 MB.
const ownMemory = 36 << 20

// limitHeap makes the garbage collector run more often when the process comes
// near the sum of maxMemory and ownMemory. Otherwise the heap would grow to twice
// the live memory. GOMEMLIMIT overrides it.
//
// It also gives the memory back that reading the settings took: files with countries are
// long.
func limitHeap(maxMemory uint64) {
	if maxMemory == 0 {
		maxMemory = chive.DefaultMaxMemory
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(maxMemory) + ownMemory)
	}
	debug.FreeOSMemory()
}

// clientGC is the growth of a client's heap, in per cent of what is live, after which
// the garbage collector runs. A client allocates next to nothing while it moves bytes, so
// that this costs little, and with ten thousand connections it saves as much as they take.
const clientGC = 20

// collectOften makes a client's garbage collector run more often. GOGC overrides it. It
// begins with the start, whose garbage else lies between what stays, and keeps those pages
// in use: half a megabyte of an onion service. To read the public network's directory
// takes some 10 ms longer by that.
func collectOften(r role) {
	if isClient(r) && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(clientGC)
	}
}

// isClient reports whether a role is a client: a proxy, or the host of onion services.
func isClient(r role) bool {
	switch r.(type) {
	case *proxyRole, *onionRole:
		return true
	}
	return false
}

// giveBack gives memory back that the process does not use now: what the garbage left, and
// the pages of the program's code. What the process needs again, it gets back at its first
// use.
func giveBack(code program, log *slog.Logger) {
	debug.FreeOSMemory()
	if err := code.unmap(); err != nil {
		log.Debug("memory: the program's pages stay mapped", "err", err)
	}
}

// A process rests if it has allocated less than restBytes in the last restEvery. It gives
// memory back if it has allocated at least worthBytes since the last time.
const (
	restEvery  = 5 * time.Second
	restBytes  = 32 << 10
	worthBytes = 256 << 10
)

// rests gives memory back each time when a client comes to rest. The start does not end
// when it is ready: it builds circuits ahead, and learns about its relays. Go's runtime
// keeps the pages of that garbage, a fifth of an idle client's memory, for what may come.
// It does so after each burst of connections, too.
type rests struct {
	allocated func() uint64 // bytes that the process has allocated so far
	giveBack  func()
}

// newRests returns nil for a node that is no client: a relay hardly ever rests.
func newRests(r role, giveBack func()) *rests {
	if !isClient(r) {
		return nil
	}
	return &rests{func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}, giveBack}
}

// run follows what the process allocates, until ctx ends.
func (r *rests) run(ctx context.Context) {
	if r == nil {
		return
	}
	t := time.NewTicker(restEvery)
	defer t.Stop()
	given := r.allocated()
	for before := given; ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := r.allocated()
		if now-before < restBytes && now-given >= worthBytes {
			r.giveBack()
			given = r.allocated()
			now = given
		}
		before = now
	}
}
