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
