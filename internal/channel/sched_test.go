package channel

import (
	"math/rand/v2"
	"testing"
	"time"
)

// slowScheduler is what scheduler does, without a heap: it looks at every circuit.
type slowScheduler struct {
	now    time.Time
	circs  map[uint32]*slowCircuit
	bursts uint64
}

type slowCircuit struct {
	active, fresh bool
	freshAt       uint64
	sent          map[time.Time]float64 // cells, by when they were sent
}

// score is the circuit's traffic, each cell halved for each half-life since.
func (s *slowScheduler) score(c *slowCircuit) float64 {
	var sum float64
	var all scheduler
	all.start = s.now
	for at, n := range c.sent {
		sum += n * all.weight(at)
	}
	return sum
}

// first reports whether no active circuit is to send before this one.
func (s *slowScheduler) first(id uint32) bool {
	c := s.circs[id]
	mine := s.score(c)
	for _, o := range s.circs {
		if !o.active || o == c {
			continue
		}
		if o.fresh != c.fresh {
			if o.fresh {
				return false
			}
			continue
		}
		if s.score(o) < mine*(1-1e-9) {
			return false
		}
	}
	return c.active
}

// TestSchedulerAgainstSlow: in any order of additions, turns and removals, while time goes
// on and the weights are scaled anew, the circuit whose turn it is is the one that a search
// over all of them finds. A removal from the middle of the heap once broke its order in C tor
// (41428).
func TestSchedulerAgainstSlow(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := time.Unix(1e9, 0)
		var s scheduler
		slow := &slowScheduler{circs: map[uint32]*slowCircuit{}}
		circs := map[uint32]*CircuitEnd{}
		for i := range uint32(3 + r.IntN(40)) {
			circs[i] = &CircuitEnd{id: i, heapAt: -1}
			slow.circs[i] = &slowCircuit{sent: map[time.Time]float64{}}
		}
		active := 0
		for step := range 300 {
			if r.IntN(8) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(2 * ewmaHalflife))))
			}
			if step == 150 {
				now = now.Add(time.Duration(r.IntN(2)) * 257 * ewmaHalflife)
			}
			s.rescale(now, circs)
			slow.now = now
			id := uint32(r.IntN(len(circs)))
			c, o := circs[id], slow.circs[id]
			switch r.IntN(4) {
			case 0, 1:
				if !o.active {
					o.fresh, o.active = o.freshAt != slow.bursts+1, true
					s.add(c)
					active++
				}
			case 2: // destroyed, or cleared, wherever it is in the heap
				if o.active {
					active--
				}
				o.active = false
				s.remove(c)
			case 3:
				c = s.min()
				if c == nil {
					break
				}
				o = slow.circs[c.id]
				n, more := float64(1+r.IntN(burst)), r.IntN(2) == 0
				o.sent[now] += n
				if o.fresh {
					o.fresh, o.freshAt = false, slow.bursts+1
				} else {
					slow.bursts++
				}
				if o.active = more; !more {
					active--
				}
				s.took(c, n*s.weight(now), more)
			}
			first := s.min()
			if (first == nil) != (active == 0) || len(s.heap) != active {
				t.Fatalf("seed %d, step %d: %d are in the heap, of %d", seed, step, len(s.heap), active)
			}
			if first != nil && !slow.first(first.id) {
				t.Fatalf("seed %d, step %d: circuit %d is first, and another one was to be", seed, step, first.id)
			}
			for i, c := range s.heap {
				if c.heapAt != i {
					t.Fatalf("seed %d, step %d: circuit %d does not know its place", seed, step, c.id)
				}
			}
		}
	}
}
