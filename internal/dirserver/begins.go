package dirserver

import (
	"math"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/pace"
)

// beginLimits bound the directory streams of one circuit: the consensus's parameters
// DoSBeginDir..., with C tor's bounds and defaults. They are apart from the limit of exit
// streams (DoSStreamCreation...), and hold before there is a consensus, too.
type beginLimits struct {
	pace    *pace.Limit // nil: off
	destroy bool        // close a circuit above the pace; false: refuse the stream
	once    bool        // a relay's circuit gets one stream
}

// The types of DoSBeginDirDefenseType.
const (
	beginsPass = iota + 1
	beginsRefused
	beginsDestroy
)

// beginLimitsOf reads the limits.
func beginLimitsOf(p netdoc.Params) beginLimits {
	l := beginLimits{once: p.Get("DoSBeginDirLimitEnabled", 0, 0, 1) == 1}
	kind := p.Get("DoSBeginDirDefenseType", beginsDestroy, beginsPass, beginsDestroy)
	if p.Get("DoSBeginDirRateEnabled", 1, 0, 1) == 1 && kind != beginsPass {
		l.pace = &pace.Limit{
			Rate:  float64(p.Get("DoSBeginDirRate", 10, 1, math.MaxInt32)),
			Burst: float64(p.Get("DoSBeginDirBurst", 60, 1, math.MaxInt32)),
		}
		l.destroy = kind == beginsDestroy
	}
	return l
}

// beginLimits returns those of the consensus that the server serves.
func (s *Server) beginLimits() beginLimits {
	for _, f := range []netdoc.Flavor{netdoc.FlavorMicrodesc, netdoc.FlavorNS} {
		if c := s.cfg.Docs.Consensus(f); c != nil {
			return c.begins
		}
	}
	return beginLimitsOf(nil)
}

// begins knows how many directory streams the open circuits have begun.
type begins struct {
	mu    sync.Mutex // guards what follows
	circs map[*circuit.Circuit]*begun
}

// begun is one circuit's part.
type begun struct {
	pace pace.Pace
	any  bool // it has begun a stream
}

// begunCost is the memory of a begun on the circuit's account, in bytes: with its
// limiter, its place in the map, and the function that takes it from there.
const begunCost = 168

// Admit counts a BEGIN_DIR of a circuit, which every caller of Begin must ask first. If
// the circuit has had too many, refuse is true, and the caller ends the stream with MISC:
// a client that is told RESOURCELIMIT would leave the relay alone until the next consensus.
// Or it closes the circuit, and says so with gone.
func (s *Server) Admit(c *circuit.Circuit) (refuse, gone bool) {
	limits := s.beginLimits()
	quick, again := s.begins.count(c, limits, time.Now())
	switch {
	case quick && limits.destroy:
		s.stats.Quick.Add(1)
		c.Close(cell.DestroyResourceLimit, fault.New(fault.Resource, "the circuit begins directory streams faster than the consensus allows"))
		return false, true
	case quick:
		s.stats.Quick.Add(1)
		return true, false
	case again && limits.once && c.MultiHop():
		s.stats.Again.Add(1)
		return true, false
	}
	return false, false
}

// count counts one, and says whether it came too quickly, and whether it was not the
// first.
func (b *begins) count(c *circuit.Circuit, l beginLimits, now time.Time) (quick, again bool) {
	fresh, quick, again := b.note(c, l, now)
	if fresh {
		c.Account().Reserve(begunCost)
		c.OnClose(func(error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.circs, c)
		})
	}
	return quick, again
}

func (b *begins) note(c *circuit.Circuit, l beginLimits, now time.Time) (fresh, quick, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.circs[c]
	if fresh = n == nil; fresh {
		n = new(begun)
		b.circs[c] = n
	}
	quick = l.pace != nil && !n.pace.Allow(now, *l.pace)
	again = n.any
	n.any = true
	return fresh, quick, again
}
