package daemon

import (
	"os"
	"runtime/debug"
)

// clientGC is the growth of a client's heap, in per cent of what is live, after which
// the garbage collector runs. A client allocates next to nothing while it moves bytes, so
// that this costs little, and with ten thousand connections it saves as much as they take.
const clientGC = 20

// relayGC is the same of a relay, which holds much for long, such as circuits at rest, and allocates
// little: what is garbage for a while takes less memory than with Go's 100, and the collector still has
// next to nothing to do.
const relayGC = 35

// collectOften makes the garbage collector of a client or a relay run more often. GOGC overrides it. It
// begins with the start, whose garbage else lies between what stays, and keeps those pages
// in use: half a megabyte of an onion service. To read the public network's directory
// takes some 10 ms longer by that.
func collectOften(r role) {
	if os.Getenv("GOGC") != "" {
		return
	}
	switch _, relay := r.(*relayRole); {
	case relay:
		debug.SetGCPercent(relayGC)
	case isClient(r):
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
