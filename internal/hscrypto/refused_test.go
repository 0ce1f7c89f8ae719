package hscrypto

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// TestNoPoint: an identity that is no point of the curve has no blinded key.
func TestNoPoint(t *testing.T) {
	refused := 0
	for b := range 256 {
		id := ident.Ed25519ID{byte(b), 1: 7}
		if got, err := Blind(id, Period{Num: 1, Minutes: 1440}); err != nil {
			refused++
			if got != (ident.Ed25519ID{}) {
				t.Error("a key together with an error")
			}
		}
	}
	if refused < 64 { // half of all texts are no points
		t.Errorf("%d of 256 are refused", refused)
	}
}

// TestCounterBounds: the first and the last second of a counter, and those beyond.
func TestCounterBounds(t *testing.T) {
	c, err := newCounter([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	for seconds, ok := range map[int]bool{-1: false, 0: false, 1: true, maxAge: true, maxAge + 1: false} {
		if n, err := c.At(seconds); (err == nil) != ok || ok && n == 0 {
			t.Errorf("%d seconds: %d, %v", seconds, n, err)
		}
	}
}

// TestCounterWithin: counters grow within a second too, and are those of C tor at its beginning.
func TestCounterWithin(t *testing.T) {
	c, err := newCounter([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	within := func(age time.Duration) uint64 {
		t.Helper()
		n, err := c.Within(age)
		if err != nil {
			t.Fatal(age, err)
		}
		return n
	}
	for _, second := range []int{1, 2, 3600, maxAge - 1} {
		age := time.Duration(second-1) * time.Second
		at, err := c.At(second)
		if err != nil || within(age) != at {
			t.Errorf("second %d: %d, not %d: %v", second, within(age), at, err)
		}
		next, err := c.At(second + 1)
		if err != nil {
			t.Fatal(err)
		}
		for d := 100 * time.Millisecond; d < time.Second; d += 100 * time.Millisecond {
			n := within(age + d)
			if n <= at || n >= next {
				t.Fatalf("%v: %d is not between %d and %d", age+d, n, at, next)
			}
			at = n
		}
	}
	first, err := c.At(1)
	if n := within(-time.Second / 2); err != nil || n != first {
		t.Errorf("half a second before: %d, %v", n, err)
	}
	last, err := c.At(maxAge)
	if n := within(maxAge*time.Second - 1); err != nil || n != last {
		t.Errorf("at the end: %d, not %d: %v", n, last, err)
	}
	for _, age := range []time.Duration{-time.Second, maxAge * time.Second} {
		if n, err := c.Within(age); err == nil || n != 0 {
			t.Errorf("%v: %d", age, n)
		}
	}
}

// TestPeriodsBegin: what is before the first period counts as in it.
func TestPeriodsBegin(t *testing.T) {
	for _, c := range []struct {
		at   int64
		want uint64
	}{{0, 0}, {12*3600 - 1, 0}, {12 * 3600, 0}, {36*3600 - 1, 0}, {36 * 3600, 1}} {
		if got := PeriodAt(time.Unix(c.at, 0), 1440, 12*time.Hour).Num; got != c.want {
			t.Errorf("at %d: period %d, want %d", c.at, got, c.want)
		}
	}
}
