package tord

import (
	"fmt"
	"strings"
	"sync"
)

// maxBandwidths is how many seconds GETINFO bw-event-cache goes back. C tor has as many.
const maxBandwidths = 300

// bandwidths are the newest numbers of BW events, from when on a controller wanted some.
type bandwidths struct {
	mu   sync.Mutex
	last [][2]uint64 // guarded by mu: bytes read and written, the oldest first
}

func (b *bandwidths) add(read, written uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.last) == maxBandwidths {
		b.last = b.last[:copy(b.last, b.last[1:])]
	}
	b.last = append(b.last, [2]uint64{read, written})
}

// text is the answer to GETINFO bw-event-cache.
func (b *bandwidths) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]string, len(b.last))
	for i, s := range b.last {
		all[i] = fmt.Sprintf("%d,%d", s[0], s[1])
	}
	return strings.Join(all, " ")
}
