package channel

import (
	"math"
	"time"
)

// ewmaHalflife is the time in which a circuit's past cells lose half their
// weight; C tor's default is the same (the CircuitPriorityHalflife parameter).
const ewmaHalflife = 30 * time.Second

// burst is how many cells one circuit may put into a record before the next
// circuit has its turn: small enough that an interactive circuit's cell waits
// for a quarter of a record at most.
const burst = 8

// scheduler chooses which circuit sends next: the one with the least recent
// traffic, as an exponentially weighted moving average (EWMA). Instead of
// decaying every circuit's count it lets the weight of new cells grow, and
// rescales rarely. The channel's mutex guards it.
type scheduler struct {
	heap  []*Circ // binary heap by ewma; circuits that have cells queued
	start time.Time
}

// weight returns what one cell sent now counts.
func (s *scheduler) weight(now time.Time) float64 {
	if s.start.IsZero() {
		s.start = now
	}
	return math.Exp2(float64(now.Sub(s.start)) / float64(ewmaHalflife))
}

// rescale divides all counts by the present weight, before it overflows; all
// are the channel's circuits, active or not.
func (s *scheduler) rescale(now time.Time, circs map[uint32]*Circ) {
	if s.start.IsZero() || now.Sub(s.start) < 256*ewmaHalflife {
		return
	}
	w := s.weight(now)
	for _, c := range circs {
		c.ewma /= w
	}
	s.start = now
}

// add makes c active; its count is kept over idleness.
func (s *scheduler) add(c *Circ) {
	c.heapAt = len(s.heap)
	s.heap = append(s.heap, c)
	s.up(c.heapAt)
}

// min returns the circuit to send from, or nil.
func (s *scheduler) min() *Circ {
	if len(s.heap) == 0 {
		return nil
	}
	return s.heap[0]
}

// fix restores the order after c's count grew.
func (s *scheduler) fix(c *Circ) { s.down(c.heapAt) }

// remove makes c inactive.
func (s *scheduler) remove(c *Circ) {
	i := c.heapAt
	if i < 0 {
		return
	}
	last := len(s.heap) - 1
	s.swap(i, last)
	s.heap[last] = nil
	s.heap = s.heap[:last]
	c.heapAt = -1
	if i < last {
		s.down(i)
		s.up(i)
	}
}

func (s *scheduler) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].heapAt, s.heap[j].heapAt = i, j
}

func (s *scheduler) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if s.heap[p].ewma <= s.heap[i].ewma {
			return
		}
		s.swap(i, p)
		i = p
	}
}

func (s *scheduler) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(s.heap) {
			return
		}
		if k+1 < len(s.heap) && s.heap[k+1].ewma < s.heap[k].ewma {
			k++
		}
		if s.heap[i].ewma <= s.heap[k].ewma {
			return
		}
		s.swap(i, k)
		i = k
	}
}
