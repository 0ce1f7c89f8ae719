package hspow

import (
	"slices"
	"testing"
	"time"
)

// Seeds follow each other without a gap, each lasts for 105 to 120 minutes, and all times
// have the seed that the schedule says.
func TestScheduleLengths(t *testing.T) {
	for secret := range byte(8) {
		s := NewSchedule([32]byte{secret})
		at := time.Unix(1_800_000_000, 0)
		seed := s.At(at)
		lengths := map[time.Duration]bool{}
		for range 500 {
			if seed.From.After(at) || !at.Before(seed.Until) {
				t.Fatalf("the seed of %v is from %v to %v", at, seed.From, seed.Until)
			}
			length := seed.Until.Sub(seed.From)
			if lengths[length] = true; length < 105*time.Minute || length > 120*time.Minute {
				t.Fatalf("a seed lasts for %v", length)
			}
			if last := s.At(seed.Until.Add(-1)); last != seed {
				t.Fatalf("the seed changes before %v", seed.Until)
			}
			next := s.At(seed.Until)
			if next.From != seed.Until || next.Number != seed.Number+1 || next.Value == seed.Value {
				t.Fatalf("after %+v comes %+v", seed, next)
			}
			at, seed = seed.Until, next
		}
		if len(lengths) < 100 {
			t.Errorf("only %d different lengths", len(lengths))
		}
	}
}

// The secret decides about all: two schedules of it agree, and those of others differ also
// in the times.
func TestScheduleSecret(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a, b, c := NewSchedule([32]byte{1}).At(now), NewSchedule([32]byte{1}).At(now), NewSchedule([32]byte{2}).At(now)
	if a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
	if a.Value == c.Value || a.Until.Equal(c.Until) {
		t.Errorf("two secrets have %+v and %+v", a, c)
	}
}

// A client may have the present seed or the one before; only shortly before its time the
// next one.
func TestScheduleKnown(t *testing.T) {
	s := NewSchedule([32]byte{1})
	seed := s.At(time.Unix(1_800_000_000, 0))
	numbers := func(at time.Time) (out []int64) {
		for _, k := range s.Known(at) {
			out = append(out, k.Number-seed.Number)
		}
		return out
	}
	for _, c := range []struct {
		at   time.Time
		want []int64
	}{
		{seed.From, []int64{0, -1}},
		{seed.Until.Add(-SeedSkew - 1), []int64{0, -1}},
		{seed.Until.Add(-SeedSkew), []int64{0, -1, 1}},
		{seed.Until, []int64{1, 0}},
	} {
		if got := numbers(c.at); !slices.Equal(got, c.want) {
			t.Errorf("%v before the end: %v, want %v", seed.Until.Sub(c.at), got, c.want)
		}
	}
}
