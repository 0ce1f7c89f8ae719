package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoad: a process that is calm for some time gets one processor, and one that is busy
// gets all at once.
func TestLoad(t *testing.T) {
	var l load
	for i, c := range []struct {
		share float64
		looks int
		one   bool
	}{
		{0.1, calmLooks - 1, false},
		{0.4, 1, false},
		{0.1, calmLooks - 1, false},
		{0.1, 1, true},
		{0.4, 20, true},
		{0.9, 1, false},
		{1.9, 20, false},
		{0.4, 20, false},
		{0, calmLooks, true},
	} {
		before, changed := l.one, 0
		for range c.looks {
			if l.changes(c.share) {
				changed++
			}
		}
		if l.one != c.one || changed > 1 || (changed == 1) != (l.one != before) {
			t.Errorf("step %d: %v after %d changes", i, l.one, changed)
		}
	}
}

// TestProcessors: a process that does nothing gets one processor after two seconds, and
// all at its end.
func TestProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sets := make(chan bool, 10)
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		go (&processors{func() (time.Duration, error) { return time.Second, nil }, func(all bool) { sets <- all }, slog.New(slog.DiscardHandler)}).run(ctx)
		if all := <-sets; all || time.Since(began) != calmLooks*loadEvery {
			t.Errorf("%v after %v", all, time.Since(began))
		}
		stop()
		if !<-sets {
			t.Error("one processor at the end")
		}
	})
}

// TestProcessorsUnknown: without a known load, all processors stay.
func TestProcessorsUnknown(t *testing.T) {
	var got []bool
	fails := func() (time.Duration, error) { return 0, errors.New("test") }
	(&processors{fails, func(all bool) { got = append(got, all) }, slog.New(slog.DiscardHandler)}).run(t.Context())
	if !slices.Equal(got, []bool{true}) {
		t.Error(got)
	}
	(*processors)(nil).run(t.Context())
	if _, err := processTime(); err != nil {
		t.Error(err)
	}
	t.Setenv("GOMAXPROCS", "2")
	if newProcessors(nil) != nil {
		t.Error("GOMAXPROCS has no effect")
	}
}
