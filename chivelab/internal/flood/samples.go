package flood

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is one operation of the honest client.
type sample struct {
	began time.Time
	took  time.Duration // for a failure: at least the time that the client waited
	ok    bool
}

// samples holds all samples of one kind, in the order of their ends.
type samples struct {
	mu      sync.Mutex // guards what follows
	all     []sample
	pending time.Time // start of the operation in progress; zero: there is none
}

// begin records the start of an operation.
func (s *samples) begin(at time.Time) {
	s.mu.Lock()
	s.pending = at
	s.mu.Unlock()
}

// add adds a finished operation.
func (s *samples) add(x sample) {
	s.mu.Lock()
	s.all, s.pending = append(s.all, x), time.Time{}
	s.mu.Unlock()
}

// between returns the samples that ended in a span. An operation that is still in
// progress counts with its time up to the span's end, so that a client that only
// waits is counted.
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

// Times summarises durations, in milliseconds.
type Times struct {
	Count  int     `json:"count"`
	Failed int     `json:"failed"` // counted with the time that the client waited
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

// Phase has the measurements of the honest client in a part of a run.
type Phase struct {
	Seconds float64 `json:"seconds"`
	Ping    Times   `json:"ping"`    // round trips
	Goodput float64 `json:"MBps"`    // of downloads, 10^6 bytes per second
	Connect Times   `json:"connect"` // new links with a circuit
}
