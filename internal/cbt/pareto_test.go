package cbt

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// The times of C tor's test_circuit_timeout_xm_alpha (src/test/test.c,
// 0.4.9.11), without its abandoned circuits, which count for nothing.
func ctorTimes() *history {
	var h history
	for i := range uint32(10) {
		for _, t := range []uint32{100, 20, 1000, 500, 200, 5000, 30, 600, 200, 300} {
			h.add(t + i)
		}
	}
	return &h
}

func TestCTorXmAndAlpha(t *testing.T) {
	for _, v := range []struct {
		modes int
		xm    uint32
		alpha float64
	}{
		{1, 205, 1.394401}, {3, 117, 0.902313}, {5, 146, 1.049032},
		{10, 800, 4.851754}, {15, 800, 4.851754}, {20, 800, 4.851754},
	} {
		h := ctorTimes()
		if xm, ok := h.xm(v.modes); !ok || xm != v.xm {
			t.Errorf("%d modes: Xm %d, not %d", v.modes, xm, v.xm)
		}
		c, _ := h.fit(v.modes)
		if a := 1 / c.invAlpha; math.Abs(a-v.alpha) > 0.00001 {
			t.Errorf("%d modes: alpha %f, not %f", v.modes, a, v.alpha)
		}
	}
}

// artiTimes and the values below are those of Arti's tests in
// tor-circmgr 0.47.0, src/timeouts/pareto.rs.
var artiTimes = []uint32{300, 500, 542, 305, 543, 307, 212, 203, 617, 413}

func TestArtiEstimate(t *testing.T) {
	var h history
	if _, ok := h.xm(2); ok {
		t.Fatal("nothing has no Xm")
	}
	for _, v := range artiTimes {
		h.add(v)
	}
	if xm, _ := h.xm(2); xm != 401 {
		t.Fatalf("Xm %d, not 401", xm)
	}
	c, _ := h.fit(2)
	for q, want := range map[float64]float64{0.60: 451.127, 0.80: 493.169, 0.99: 724.841} {
		if got := c.quantile(q); math.Abs(got-want) > 0.001 {
			t.Errorf("quantile %v is %f, not %f", q, got, want)
		}
	}
}

func TestHistogram(t *testing.T) {
	for in, want := range map[uint32]uint32{0: 5, 1: 5, 9: 5, 10: 15, 903: 905} {
		if got := midpoint(in); got != want {
			t.Errorf("midpoint of %d is %d, not %d", in, got, want)
		}
	}
	var h history
	for _, v := range artiTimes {
		h.add(v)
	}
	want := []bin{{205, 1}, {215, 1}, {305, 3}, {415, 1}, {505, 1}, {545, 2}, {615, 1}}
	if got := h.bins(); !reflect.DeepEqual(got, want) {
		t.Fatalf("bins %v, not %v", got, want)
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	var h history
	for i := range uint32(historyLen + 7) {
		h.add(i + 1)
	}
	if h.n != historyLen || h.max() != historyLen+7 {
		t.Fatalf("%d times, longest %d", h.n, h.max())
	}
	for _, v := range h.all() {
		if v <= 7 {
			t.Fatalf("%d should have been overwritten", v)
		}
	}
}

// TestRecoversTheCurve draws from a known Pareto curve, as C tor's
// test_circuit_timeout does, and asks for its timeout back within 2 % of mass.
func TestRecoversTheCurve(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	truth := curve{3000, math.Log(30000.0/3000) / -math.Log(0.2)}
	if got := truth.quantile(0.8); math.Abs(got-30000) > 1 {
		t.Fatalf("the test's curve is wrong: %f", got)
	}
	cdf := func(x float64) float64 { return 1 - math.Pow(truth.xm/x, 1/truth.invAlpha) }
	e := New(DefaultParams())
	for range historyLen {
		took := ms(truth.quantile(rnd.Float64() * 0.999))
		e.history.add(uint32(took.Milliseconds()))
	}
	e.update()
	usage, _ := e.Timeouts(3)
	if d := math.Abs(cdf(float64(usage.Milliseconds())) - 0.8); d > 0.02 {
		t.Fatalf("timeout %v is off by %f of mass", usage, d)
	}
	e2, err := Decode(e.Encode(), DefaultParams(), rnd)
	if err != nil {
		t.Fatal(err)
	}
	usage2, _ := e2.Timeouts(3)
	if d := math.Abs(cdf(float64(usage2.Milliseconds())) - 0.8); d > 0.05 {
		t.Fatalf("timeout %v after a restart is off by %f of mass", usage2, d)
	}
}

func TestQuantileOfEqualTimes(t *testing.T) {
	var h history
	for range 200 {
		h.add(42)
	}
	c, _ := h.fit(10)
	if q := c.quantile(0.99); math.IsNaN(q) || q < 45 || q > 46 {
		t.Fatalf("quantile %f of times that are all in the bin at 45", q)
	}
}
