package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
)

// guardFilter gives the guards the settings of a moment, which must not be replaced by older ones
// that another goroutine has read.
type guardFilter struct {
	mu sync.Mutex // held while the guards get them
}

func (f *guardFilter) set(guards *guard.Manager, live *atomic.Pointer[Live], d *netdir.Directory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	guards.SetFilter(live.Load().Path.GuardFilter(d), time.Now())
}
