package account

import (
	"math"
	"testing"
)

// TestNearly: a total comes near once, and again only after it was well below.
func TestNearly(t *testing.T) {
	var n Nearly
	for i, c := range []struct {
		used, bound int64
		came, near  bool
	}{
		{0, 1000, false, false},
		{799, 1000, false, false},
		{800, 1000, true, true},
		{1200, 1000, false, true},
		{700, 1000, false, true},
		{800, 1000, false, true},
		{600, 1000, false, true},
		{599, 1000, false, false},
		{799, 1000, false, false},
		{801, 1000, true, true},
		{801, 2000, false, false}, // the operator has raised the bound
		{1 << 40, math.MaxInt64, false, false},
		{1 << 40, 0, false, false}, // there is no bound
		{math.MaxInt64, math.MaxInt64, true, true},
	} {
		if came := n.Look(c.used, c.bound); came != c.came || n.Near() != c.near {
			t.Errorf("%d: %d of %d: came near: %v, is near: %v", i, c.used, c.bound, came, n.Near())
		}
	}
}
