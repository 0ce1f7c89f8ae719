package daemon

import (
	"os"
	"runtime/debug"

	"github.com/chivenet/chive"
)

// ownMemory is what a process may take besides what others make it hold, in
// bytes: with the program's code it stays under 64 MB.
const ownMemory = 36 << 20

// limitHeap has the garbage collector run more often before the process takes
// more than peers may make it hold and ownMemory. Otherwise the heap would grow
// to twice of what is live. GOMEMLIMIT goes before.
func limitHeap(maxMemory uint64) {
	if maxMemory == 0 {
		maxMemory = chive.DefaultMaxMemory
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(maxMemory) + ownMemory)
	}
}
