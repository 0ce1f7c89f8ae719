package daemon

import (
	"os"
	"runtime/debug"

	"github.com/chivenet/chive"
)

// ownMemory is the memory that a process may use for itself, without what others
// make it hold, in bytes: with the program's code it stays below 64 MB.
const ownMemory = 36 << 20

// limitHeap makes the garbage collector run more often when the process comes
// near the sum of maxMemory and ownMemory. Otherwise the heap would grow to twice
// the live memory. GOMEMLIMIT overrides it.
func limitHeap(maxMemory uint64) {
	if maxMemory == 0 {
		maxMemory = chive.DefaultMaxMemory
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(maxMemory) + ownMemory)
	}
}
