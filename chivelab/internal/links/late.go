package links

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Lateness says how much later than wanted packets left. It knows nothing of packets that waited
// in the kernel before the emulator saw them.
type Lateness struct {
	Packets uint64        `json:"packets"`
	Sum     time.Duration `json:"sum_ns"`
	Worst   time.Duration `json:"worst_ns"`
	Far     uint64        `json:"far"`     // packets later than FarLate
	Overrun uint64        `json:"overrun"` // packets for which there was no memory
}

// FarLate is what a packet may be late without being counted for itself.
const FarLate = 5 * time.Millisecond

func (l *Lateness) add(d time.Duration) {
	l.Packets++
	l.Sum += d
	l.Worst = max(l.Worst, d)
	if d > FarLate {
		l.Far++
	}
}

// Mean is how late packets were on average.
func (l Lateness) Mean() time.Duration {
	if l.Packets == 0 {
		return 0
	}
	return l.Sum / time.Duration(l.Packets)
}

// FarShare is the share of the packets that were later than FarLate.
func (l Lateness) FarShare() float64 {
	if l.Packets == 0 {
		return 0
	}
	return float64(l.Far) / float64(l.Packets)
}

// With is the lateness of two lines together.
func (l Lateness) With(o Lateness) Lateness {
	return Lateness{l.Packets + o.Packets, l.Sum + o.Sum, max(l.Worst, o.Worst), l.Far + o.Far, l.Overrun + o.Overrun}
}

// Since is the lateness after an earlier one of the same lines. Worst is that of both together.
func (l Lateness) Since(o Lateness) Lateness {
	return Lateness{l.Packets - o.Packets, l.Sum - o.Sum, l.Worst, l.Far - o.Far, l.Overrun - o.Overrun}
}

func (l Lateness) String() string {
	return fmt.Sprintf("late by %v on average, %v at worst, %.2f %% by more than %v, %d packets",
		l.Mean().Round(time.Microsecond), l.Worst.Round(time.Microsecond), 100*l.FarShare(), FarLate, l.Packets)
}

// Bound is the lateness up to which a result counts. Zero fields are the defaults.
type Bound struct {
	Mean time.Duration // default 1 ms
	Far  float64       // the share of the packets that may be later than FarLate; default 0.01
}

// Defaults returns the bound with what zero fields mean.
func (b Bound) Defaults() Bound {
	if b.Mean == 0 {
		b.Mean = time.Millisecond
	}
	if b.Far == 0 {
		b.Far = .01
	}
	return b
}

// ErrLate is in the error of Refuse.
var ErrLate = fault.New(fault.Resource, "this machine was too slow to emulate the link: the result does not count")

// Refuse returns an error with ErrLate if the lateness is above the bound: whoever measured
// something meanwhile must not report it.
func (b Bound) Refuse(l Lateness) error {
	b = b.Defaults()
	if l.Mean() <= b.Mean && l.FarShare() <= b.Far && l.Overrun == 0 {
		return nil
	}
	return fmt.Errorf("%w (%v; the bound is %v on average, and %.2f %% by more than %v; %d packets found no memory)",
		ErrLate, l, b.Mean, 100*b.Far, FarLate, l.Overrun)
}
