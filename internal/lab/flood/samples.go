package flood

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one thing that the honest client did.
type sample struct {
	began time.Time
	took  time.Duration // of what failed: at least as long as it was waited for
	ok    bool
}

// samples are all of one kind, in the order of their ends.
type samples struct {
	mu      sync.Mutex // guards what follows
	all     []sample
	pending time.Time // when what is under way began; zero: nothing is
}

// begin says that one begins.
func (s *samples) begin(at time.Time) {
	s.mu.Lock()
	s.pending = at
	s.mu.Unlock()
}

// add takes one that has ended.
func (s *samples) add(x sample) {
	s.mu.Lock()
	s.all, s.pending = append(s.all, x), time.Time{}
	s.mu.Unlock()
}

// between returns those that ended in a span, and what is still under way as it
// is at the span's end: who waits all the time has waited.
func (s *samples) between(from, to time.Time) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []sample
	for _, x := range s.all {
		if end := x.began.Add(x.took); !end.Before(from) && end.Before(to) {
			out = append(out, x)
		}
	}
	if !s.pending.IsZero() && s.pending.Before(to) {
		out = append(out, sample{began: s.pending, took: to.Sub(s.pending), ok: true})
	}
	return out
}

// Times are how long something took, in milliseconds.
type Times struct {
	Count  int     `json:"count"`
	Failed int     `json:"failed"` // counted with the time that they were waited for
	Median float64 `json:"median_ms"`
	P95    float64 `json:"p95_ms"`
	Max    float64 `json:"max_ms"`
}

func timesOf(all []sample) Times {
	t := Times{Count: len(all)}
	if len(all) == 0 {
		return t
	}
	took := make([]float64, len(all))
	for i, s := range all {
		took[i] = float64(s.took) / float64(time.Millisecond)
		if !s.ok {
			t.Failed++
		}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(int(q*float64(len(took))), len(took)-1)] }
	t.Median, t.P95, t.Max = at(0.5), at(0.95), took[len(took)-1]
	return t
}

// meter counts bytes.
type meter struct{ n atomic.Int64 }

func (m *meter) add(n int) { m.n.Add(int64(n)) }

// Phase is how the honest client fared in a part of a run.
type Phase struct {
	Seconds float64 `json:"seconds"`
	Ping    Times   `json:"ping"`    // round trips
	Goodput float64 `json:"MBps"`    // of downloads, 10^6 bytes a second
	Connect Times   `json:"connect"` // new links with a circuit
}
