package links

import (
	"math"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Shape is the distribution of jitter.
type Shape string

// The shapes. Spread is half the width of Uniform, and the standard deviation of Normal; what
// Normal gives beyond four of them is cut. A Table has values that are drawn with equal chance, and
// no Spread.
const (
	Steady  Shape = "none"
	Uniform Shape = "uniform"
	Normal  Shape = "normal"
	Table   Shape = "table"
)

// Discipline says what a queue drops.
type Discipline string

// The disciplines: DropTail drops what finds the queue full. CoDel (RFC 8289) also drops at the
// head while packets wait too long.
const (
	DropTail Discipline = "drop-tail"
	CoDel    Discipline = "codel"
)

// Burst is the loss of Gilbert and Elliott: the link is good or bad, changes with a chance before
// each packet, and loses packets in each state with a chance of its own.
type Burst struct {
	ToBad, ToGood     float64
	LossGood, LossBad float64
}

// Mean is the share of the packets that are lost in the long run.
func (b Burst) Mean() float64 {
	if b.ToBad+b.ToGood == 0 {
		return b.LossGood // it begins good, and stays so
	}
	bad := b.ToBad / (b.ToBad + b.ToGood)
	return bad*b.LossBad + (1-bad)*b.LossGood
}

// Rules say what one direction of a link does to packets. The zero value passes all at once.
type Rules struct {
	Rate  int64         // bits a second; 0: no bound, and no queue
	Delay time.Duration // one way

	Jitter Shape
	Spread time.Duration
	Table  []time.Duration // what is added to Delay; may be negative

	Loss  float64 // the chance to be lost, each packet for itself
	Burst Burst   // besides Loss

	// Reorder is the chance that a packet is held back by ReorderBy, so that later ones
	// overtake it. Jitter alone changes no order: a packet waits for those before it.
	Reorder   float64
	ReorderBy time.Duration

	Queue      int // bytes that may wait, without the packet under way; 0: DefaultQueue
	Discipline Discipline
	Target     time.Duration // of CoDel; 0: 5 ms
	Interval   time.Duration // of CoDel; 0: 100 ms

	MTU int // of an IP packet in bytes; 0: DefaultMTU
}

// Defaults of RFC 8289 and of this package. The bounds keep all sums of times far from an overflow.
const (
	DefaultQueue    = 1 << 20
	DefaultMTU      = 1500
	defaultTarget   = 5 * time.Millisecond
	defaultInterval = 100 * time.Millisecond

	minRate  = 1000
	maxRate  = 100_000_000_000
	maxTime  = time.Hour
	minMTU   = 68 // RFC 791
	maxMTU   = 65535
	maxQueue = 1 << 30
	maxTable = 1 << 16
)

// Defaults returns the rules with what zero fields mean.
func (r Rules) Defaults() Rules {
	if r.Jitter == "" {
		r.Jitter = Steady
	}
	if r.Queue == 0 {
		r.Queue = DefaultQueue
	}
	if r.Discipline == "" {
		r.Discipline = DropTail
	}
	if r.Target == 0 {
		r.Target = defaultTarget
	}
	if r.Interval == 0 {
		r.Interval = defaultInterval
	}
	if r.MTU == 0 {
		r.MTU = DefaultMTU
	}
	return r
}

// A Mistake is a rule that cannot be. Key is its name in files.
type Mistake struct {
	Key string
	err error
}

func (m *Mistake) Error() string { return m.Key + ": " + m.err.Error() }
func (m *Mistake) Unwrap() error { return m.err }

func wrong(key, format string, args ...any) error {
	return &Mistake{key, fault.New(fault.Config, format, args...)}
}

// Check returns the first mistake: a *Mistake of kind Config.
func (r Rules) Check() error {
	for _, t := range []struct {
		key string
		d   time.Duration
	}{{"delay", r.Delay}, {"spread", r.Spread}, {"reorder-by", r.ReorderBy}, {"target", r.Target}, {"interval", r.Interval}} {
		if t.d < 0 || t.d > maxTime {
			return wrong(t.key, "%v is not from 0 to %v", t.d, maxTime)
		}
	}
	for _, c := range []struct {
		key string
		p   float64
	}{{"loss", r.Loss}, {"burst-to-bad", r.Burst.ToBad}, {"burst-to-good", r.Burst.ToGood}, {"burst-loss-good", r.Burst.LossGood},
		{"burst-loss-bad", r.Burst.LossBad}, {"reorder", r.Reorder}} {
		if !(c.p >= 0 && c.p <= 1) { // also not a number
			return wrong(c.key, "%v is no chance: it is from 0 to 1", c.p)
		}
	}
	switch {
	case r.Rate != 0 && (r.Rate < minRate || r.Rate > maxRate):
		return wrong("rate", "%d bits a second: from %d to %d, or 0 for no bound", r.Rate, minRate, int64(maxRate))
	case r.Queue < 0 || r.Queue > maxQueue:
		return wrong("queue", "%d bytes: from 1 to %d", r.Queue, maxQueue)
	case r.MTU != 0 && (r.MTU < minMTU || r.MTU > maxMTU):
		return wrong("mtu", "%d bytes: from %d to %d", r.MTU, minMTU, maxMTU)
	case r.Discipline != "" && r.Discipline != DropTail && r.Discipline != CoDel:
		return wrong("discipline", "%q is neither %s nor %s", r.Discipline, DropTail, CoDel)
	case r.Reorder > 0 && r.ReorderBy == 0:
		return wrong("reorder-by", "packets that are to be overtaken need a time to be held back")
	}
	return r.checkJitter()
}

func (r Rules) checkJitter() error {
	switch r.Jitter {
	case "", Steady:
		if r.Spread != 0 || len(r.Table) > 0 {
			return wrong("jitter", "a spread or a table has no effect without a shape")
		}
	case Uniform, Normal:
		if len(r.Table) > 0 {
			return wrong("table", "it has no effect with the shape %s", r.Jitter)
		}
	case Table:
		if len(r.Table) == 0 || len(r.Table) > maxTable {
			return wrong("table", "%d values: from 1 to %d", len(r.Table), maxTable)
		}
		if r.Spread != 0 {
			return wrong("spread", "it has no effect with a table")
		}
		for _, d := range r.Table {
			if d < -maxTime || d > maxTime {
				return wrong("table", "%v is more than %v", d, maxTime)
			}
		}
	default:
		return wrong("jitter", "%q is no shape: none, uniform, normal, table", r.Jitter)
	}
	return nil
}

// MeanLoss is the share of the packets that are lost on the way in the long run.
func (r Rules) MeanLoss() float64 { return 1 - (1-r.Loss)*(1-r.Burst.Mean()) }

// cut bounds a value of the normal distribution.
func cut(x float64) float64 { return math.Max(-4, math.Min(4, x)) }
