package daemon

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/account"
)

// ownMemory is the memory that a process may use for itself, without what others
// make it hold, in bytes: with the program's code it stays below 64 MB.
const ownMemory = 36 << 20

// limitHeap makes the garbage collector run more often when the process comes
// near the sum of maxMemory and ownMemory. Otherwise the heap would grow to twice
// the live memory. What the process has outside Go's heap, the heap must not have too. GOMEMLIMIT overrides it.
//
// It also gives the memory back that reading the settings took: files with countries are
// long.
func limitHeap(maxMemory uint64) {
	if maxMemory == 0 {
		maxMemory = chive.DefaultMaxMemory
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		account.HearOutside(func(outside int64) { debug.SetMemoryLimit(int64(maxMemory) + ownMemory - outside) })
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
