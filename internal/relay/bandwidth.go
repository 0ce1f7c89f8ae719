package relay

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// bandwidth measures the traffic of the relay, on its links and with an exit's targets:
// the greatest rate over ten consecutive seconds (dir-spec, "bandwidth-observed"), and the
// bytes of every day.
type bandwidth struct {
	mu      sync.Mutex // guards what follows
	started bool
	when    time.Time                 // of the last sample
	last    [2]uint64                 // the counters at that time: read, written
	window  [2][observeSeconds]uint64 // of the last seconds, a ring
	sum     [2]uint64
	at      int
	best    [2][observeDays]uint64 // greatest sum of a window, by day; the present day first
	day     time.Time              // when the present day began
	total   [2][]int64             // bytes of whole days, the oldest first
	today   [2]uint64
}

const (
	observeSeconds = 10
	observeDays    = 5 // as C tor: the best of the last days counts
	historyDay     = 24 * time.Hour
)

// sample takes the counters of bytes read and written; it is called every
// second.
func (b *bandwidth) sample(now time.Time, read, written uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counters := [2]uint64{read, written}
	if !b.started {
		b.started, b.last, b.when = true, counters, now
		if b.day.IsZero() {
			b.day = now
		}
		return
	}
	b.turnLocked(now)
	var fresh [2]uint64
	for i, v := range counters {
		fresh[i] = v - b.last[i]
		b.today[i] += fresh[i]
	}
	b.last = counters
	// If a sample comes late, its bytes are spread over the time since the last
	// one: a delay of the machine must not look like a greater rate.
	seconds := uint64(max(now.Sub(b.when).Round(time.Second)/time.Second, 1))
	b.when = now
	for k := range min(seconds, observeSeconds) {
		for i, n := range fresh {
			part := n*(k+1)/seconds - n*k/seconds
			b.sum[i] += part - b.window[i][b.at]
			b.window[i][b.at] = part
			b.best[i][0] = max(b.best[i][0], b.sum[i])
		}
		b.at = (b.at + 1) % observeSeconds
	}
}

// turnLocked begins a new day for each one that has passed. The caller holds mu.
func (b *bandwidth) turnLocked(now time.Time) {
	if now.Sub(b.day) > 2*observeDays*historyDay {
		b.day = now.Add(-2 * observeDays * historyDay) // so that no older day remains
	}
	for now.Sub(b.day) >= historyDay {
		b.day = b.day.Add(historyDay)
		for i := range b.best {
			copy(b.best[i][1:], b.best[i][:])
			b.best[i][0] = 0
			b.total[i] = append(b.total[i], int64(b.today[i]))
			if len(b.total[i]) > observeDays {
				b.total[i] = b.total[i][1:]
			}
			b.today[i] = 0
		}
	}
}

// Observed returns the observed bandwidth in bytes a second: the lesser of both
// directions.
func (b *bandwidth) Observed() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var top [2]uint64
	for i := range top {
		for _, v := range b.best[i] {
			top[i] = max(top[i], v)
		}
	}
	return min(top[0], top[1]) / observeSeconds
}

// stats returns the lines of the extra-info document.
func (b *bandwidth) stats() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	for i, keyword := range []string{"read-history", "write-history"} {
		if len(b.total[i]) == 0 {
			continue
		}
		// Rounded to a KiB: exact counts would reveal more of the traffic than
		// necessary.
		words := make([]string, len(b.total[i]))
		for k, v := range b.total[i] {
			words[k] = fmt.Sprint(v / 1024 * 1024)
		}
		fmt.Fprintf(&out, "%s %s (%d s) %s\n", keyword, b.day.UTC().Format(netdoc.TimeFormat), int(historyDay/time.Second), strings.Join(words, ","))
	}
	return []byte(out.String())
}
