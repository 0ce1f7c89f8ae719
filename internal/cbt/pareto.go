package cbt

import (
	"cmp"
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
	next  int // index of the next time
	n     int // number of times
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
	slices.SortStableFunc(bins, func(a, b bin) int { return cmp.Compare(b.count, a.count) })
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

// curve is a Pareto distribution. It keeps the inverse of alpha, because the
// quantile needs it, and because it is 0, and not infinite, if all times are
// equal.
type curve struct{ xm, invAlpha float64 }

// fit returns the maximum-likelihood estimate. Xm comes from the modes, and every
// time below Xm counts as Xm.
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

// quantile is the inverse of the cumulative distribution, in milliseconds, at
// most 2^31-1.
func (c curve) quantile(q float64) float64 {
	return min(c.xm/math.Pow(1-q, c.invAlpha), math.MaxInt32)
}

func ms(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
