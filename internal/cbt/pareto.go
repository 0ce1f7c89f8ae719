package cbt

import (
	"math"
	"slices"
	"time"
)

// historyLen is how many build times are kept (path-spec 2.4.2).
const historyLen = 1000

// binWidth is the histogram's bin width in milliseconds.
const binWidth = 10

// history is a ring of build times in milliseconds.
type history struct {
	times [historyLen]uint32
	next  int // where the next time goes
	n     int // how many are there
}

func (h *history) add(t uint32) {
	h.times[h.next] = t
	h.next = (h.next + 1) % historyLen
	h.n = min(h.n+1, historyLen)
}

func (h *history) all() []uint32 { return h.times[:h.n] }

func (h *history) max() uint32 {
	if h.n == 0 {
		return 0
	}
	return slices.Max(h.all())
}

// bin is one bar of the histogram: count times around mid milliseconds.
type bin struct{ mid, count uint32 }

// midpoint is the middle of t's bin.
func midpoint(t uint32) uint32 { return t/binWidth*binWidth + binWidth/2 }

// bins returns the histogram, shortest time first.
func (h *history) bins() []bin {
	sorted := slices.Clone(h.all())
	slices.Sort(sorted)
	var bins []bin
	for _, t := range sorted {
		if m := midpoint(t); len(bins) > 0 && bins[len(bins)-1].mid == m {
			bins[len(bins)-1].count++
		} else {
			bins = append(bins, bin{m, 1})
		}
	}
	return bins
}

// xm is the weighted mean of the midpoints of the fullest bins; ties go to the
// shorter times (path-spec 2.4.3).
func (h *history) xm(modes int) (uint32, bool) {
	bins := h.bins()
	slices.SortStableFunc(bins, func(a, b bin) int { return int(b.count) - int(a.count) })
	var sum, n uint64
	for _, b := range bins[:min(modes, len(bins))] {
		sum += uint64(b.mid) * uint64(b.count)
		n += uint64(b.count)
	}
	if n == 0 {
		return 0, false
	}
	return uint32(sum / n), true
}

// curve is a Pareto distribution. The inverse of alpha is kept because it is
// what the quantile needs, and because it is 0, not infinite, when all times
// are equal.
type curve struct{ xm, invAlpha float64 }

// fit is the maximum-likelihood estimate, with Xm from the modes and every
// time below Xm counted as Xm.
func (h *history) fit(modes int) (curve, bool) {
	xm, ok := h.xm(modes)
	if !ok {
		return curve{}, false
	}
	sum := 0.0
	for _, t := range h.all() {
		sum += math.Log(float64(max(t, xm)))
	}
	n := float64(h.n)
	return curve{float64(xm), (sum - n*math.Log(float64(xm))) / n}, true
}

// quantile is the inverse of the cumulative distribution, in milliseconds,
// clamped to what fits 31 bits.
func (c curve) quantile(q float64) float64 {
	return min(c.xm/math.Pow(1-q, c.invAlpha), math.MaxInt32)
}

func ms(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
