package experiment

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got-want) <= by) {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

func TestSummarize(t *testing.T) {
	s := Summarize([]float64{5, 1, 4, 2, 3})
	near(t, "mean", s.Mean, 3, 1e-12)
	near(t, "median", s.Median, 3, 1e-12)
	near(t, "deviation", s.StdDev, math.Sqrt(2.5), 1e-12)
	near(t, "quarter", s.P25, 2, 1e-12)
	near(t, "p95", s.P95, 4.8, 1e-12)
	if s.N != 5 || s.Min != 1 || s.Max != 5 {
		t.Errorf("%+v", s)
	}
	one := Summarize([]float64{7})
	if one.Mean != 7 || one.MedianCI != (Interval{7, 7}) || one.StdDev != 0 {
		t.Errorf("%+v", one)
	}
}

// TestIntervals: the interval of a mean is there where theory has it, and holds the truth as often as it says.
func TestIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 200 {
		v := make([]float64, 100)
		for i := range v {
			v[i] = 10 + r.NormFloat64()
		}
		s := Summarize(v)
		if s.MeanCI.Low <= 10 && 10 <= s.MeanCI.High {
			hits++
		}
		near(t, "width", s.MeanCI.High-s.MeanCI.Low, 2*1.96*s.StdDev/10, .12)
	}
	if hits < 180 || hits == 200 {
		t.Errorf("%d of 200 intervals hold the mean", hits)
	}
}

// TestRankSum compares with values computed by hand, and with cases that are plain.
func TestRankSum(t *testing.T) {
	a := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	b := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	// U of a is 58; there are two ties of two. By hand: z = (58-40.5-0.5)/sqrt(81/12*(19-12/306)).
	near(t, "p", rankSum(a, b), math.Erfc(17/math.Sqrt(81./12*(19-12./306))/math.Sqrt2), 1e-12)
	near(t, "p the other way", rankSum(b, a), rankSum(a, b), 1e-12)
	if p := rankSum([]float64{1, 1, 1}, []float64{1, 1}); p != 1 {
		t.Errorf("all the same: %v", p)
	}
	if p := rankSum(a, a); p != 1 {
		t.Errorf("the same values: %v", p)
	}
	var x, y []float64
	for i := range 50 {
		x, y = append(x, float64(i)), append(y, float64(i+100))
	}
	if p := rankSum(x, y); p > 1e-15 {
		t.Errorf("nothing in common: %v", p)
	}
}

func TestHolm(t *testing.T) {
	p := []float64{.04, .001, .02, .9}
	holm(p)
	for i, want := range []float64{.08, .004, .06, .9} {
		near(t, "corrected", p[i], want, 1e-12)
	}
	two := []float64{.9, .8}
	holm(two)
	if two[0] != 1 || two[1] != 1 {
		t.Errorf("%v", two)
	}
}

func TestMedianRatio(t *testing.T) {
	r, ci := medianRatio([]float64{1, 2, 3}, []float64{2, 4, 6})
	if r != 2 || ci.Low > 2 || ci.High < 2 {
		t.Errorf("%v, %v", r, ci)
	}
}
