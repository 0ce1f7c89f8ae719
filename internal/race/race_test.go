package race

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// attempt describes one attempt: how long it takes, and its result.
type attempt struct {
	takes time.Duration
	err   error
	deaf  bool // it ignores the end of its context
	panic bool
}

var errFirst, errOther = errors.New("first"), errors.New("other")

func TestFirst(t *testing.T) {
	const never = time.Hour
	for name, x := range map[string]struct {
		all     []attempt
		won     int // -1: none
		err     error
		took    time.Duration
		dropped []int
	}{
		"one":                         {all: []attempt{{takes: 5 * time.Second}}, took: 5 * time.Second},
		"the first is quick":          {all: []attempt{{takes: time.Second / 2}, {}}, took: time.Second / 2},
		"the second answers first":    {all: []attempt{{takes: never}, {takes: time.Second}, {takes: never}}, won: 1, took: 2 * time.Second},
		"a failure starts the next":   {all: []attempt{{err: errFirst}, {takes: 10 * time.Second}, {takes: 10 * time.Second}}, won: 1, took: 10 * time.Second},
		"all fail":                    {all: []attempt{{takes: 3 * time.Second, err: errFirst}, {err: errOther}, {err: errOther}}, won: -1, err: errOther, took: 3 * time.Second},
		"what comes late is dropped":  {all: []attempt{{takes: 5 * time.Second, deaf: true}, {takes: 5 * time.Second, deaf: true, err: errOther}, {}}, won: 2, took: 2 * time.Second, dropped: []int{0}},
		"a panic is a failure":        {all: []attempt{{panic: true}, {takes: time.Second}}, won: 1, took: time.Second},
		"the context ends everything": {all: []attempt{{takes: never}, {takes: never}}, won: -1, err: context.DeadlineExceeded, took: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.ContainsFunc(x.all, func(a attempt) bool { return a.panic }) {
				panicstest.Expect(t, 1)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				var dropped []int
				began := time.Now()
				won, err := First(ctx, Field{Delay: time.Second, After: time.After, Go: wg.Go}, len(x.all), func(ctx context.Context, i int) (int, error) {
					a := x.all[i]
					if a.panic {
						panic("a mistake")
					}
					end := ctx.Done()
					if a.deaf {
						end = nil
					}
					select {
					case <-time.After(a.takes):
						return i, a.err
					case <-end:
						return i, ctx.Err()
					}
				}, func(i int) { dropped = append(dropped, i) })
				took := time.Since(began)
				wg.Wait()
				if x.won >= 0 && (err != nil || won != x.won) || x.won < 0 && !errors.Is(err, x.err) {
					t.Errorf("%d, %v; want %d, %v", won, err, x.won, x.err)
				}
				if took != x.took || !slices.Equal(dropped, x.dropped) {
					t.Errorf("it took %v, not %v; %v dropped, not %v", took, x.took, dropped, x.dropped)
				}
			})
		})
	}
}
