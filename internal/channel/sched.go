package channel

import (
	"math"
	"time"
)

// ewmaHalflife is the time in which a circuit's past cells lose half their weight;
// C tor has the same default (the CircuitPriorityHalflife parameter).
const ewmaHalflife = 30 * time.Second

// burst is how many cells one circuit may put into a record before the next
// circuit has its turn: small enough that an interactive circuit's cell waits
// for a quarter of a record at most.
const burst = 8

// scheduler chooses which circuit sends next: the one with the least recent
// traffic, as an exponentially weighted moving average (EWMA). Instead of
// decaying every circuit's count it lets the weight of new cells grow, and
// rescales rarely. The channel's mutex guards it.
//
// A circuit that had no cells queued goes first with its first cells, up to one
// burst, because it did not cause the queue that it meets. Otherwise a circuit
// that downloaded a file, and is interactive now, would wait for half a minute
// while others have anything to send. Such a circuit takes turns with the others:
// between two of its priority bursts there is at least one burst of theirs.
type scheduler struct {
	heap   []*CircuitEnd // binary heap of the circuits that have cells queued, ordered by before
	start  time.Time
	bursts uint64 // taken from circuits without priority
}

// before reports whether a's turn is before b's.
func before(a, b *CircuitEnd) bool {
	if a.fresh != b.fresh {
		return a.fresh
	}
	return a.ewma < b.ewma
}

// weight returns the weight of a cell that is sent now.
func (s *scheduler) weight(now time.Time) float64 {
	if s.start.IsZero() {
		s.start = now
	}
	return math.Exp2(float64(now.Sub(s.start)) / float64(ewmaHalflife))
}

// rescale divides all counts by the present weight, before it overflows. circs are
// all circuits of the channel, active or not.
func (s *scheduler) rescale(now time.Time, circs map[uint32]*CircuitEnd) {
	if s.start.IsZero() || now.Sub(s.start) < 256*ewmaHalflife {
		return
	}
	w := s.weight(now)
	for _, c := range circs {
		c.ewma /= w
	}
	s.start = now
}

// add makes c active; its count stays while it is idle.
func (s *scheduler) add(c *CircuitEnd) {
	c.fresh = c.freshAt != s.bursts+1
	c.heapAt = len(s.heap)
	s.heap = append(s.heap, c)
	s.up(c.heapAt)
}

// min returns the circuit to send from, or nil.
func (s *scheduler) min() *CircuitEnd {
	if len(s.heap) == 0 {
		return nil
	}
	return s.heap[0]
}

// took accounts for cells that c sent, of weight n. more says that c has other
// cells queued.
func (s *scheduler) took(c *CircuitEnd, n float64, more bool) {
	c.ewma += n
	if c.fresh {
		c.fresh, c.freshAt = false, s.bursts+1
	} else {
		s.bursts++
	}
	if more {
		s.down(c.heapAt)
	} else {
		s.remove(c)
	}
}

// remove makes c inactive.
func (s *scheduler) remove(c *CircuitEnd) {
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
		if !before(s.heap[i], s.heap[p]) {
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
		if k+1 < len(s.heap) && before(s.heap[k+1], s.heap[k]) {
			k++
		}
		if !before(s.heap[k], s.heap[i]) {
			return
		}
		s.swap(i, k)
		i = k
	}
}
