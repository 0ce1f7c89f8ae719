package links

import (
	"math/rand/v2"
	"time"
)

// luck is what chance gives to one packet. It is drawn when the packet arrives, so that it
// depends on how many came before, and not on the queue.
type luck struct {
	lost         bool
	jitter, held time.Duration
}

// dice draws luck. Each kind has a stream of its own: other jitter loses no other packets.
type dice struct {
	loss, burst, jitter, order *rand.Rand
	bad                        bool // the state of Gilbert and Elliott
}

func newDice(seed uint64) dice {
	r := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind)) }
	return dice{loss: r(1), burst: r(2), jitter: r(3), order: r(4)}
}

// draw draws for the next packet.
func (d *dice) draw(r *Rules) luck {
	var l luck
	l.lost = d.loss.Float64() < r.Loss
	turn, hit := d.burst.Float64(), d.burst.Float64()
	if d.bad {
		d.bad = turn >= r.Burst.ToGood
	} else {
		d.bad = turn < r.Burst.ToBad
	}
	chance := r.Burst.LossGood
	if d.bad {
		chance = r.Burst.LossBad
	}
	l.lost = l.lost || hit < chance
	if d.order.Float64() < r.Reorder {
		l.held = r.ReorderBy
	}
	switch r.Jitter {
	case Uniform:
		l.jitter = time.Duration(float64(r.Spread) * (2*d.jitter.Float64() - 1))
	case Normal:
		l.jitter = time.Duration(float64(r.Spread) * cut(d.jitter.NormFloat64()))
	case Table:
		l.jitter = r.Table[d.jitter.IntN(len(r.Table))]
	}
	return l
}
