package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// others is how many connections load a path beside the one that is measured.
const others = 4

// load measures a connection beside others that take a share of what a path carries: of
// what as many downloads get together where nothing bounds them, just before.
func load(ctx context.Context, w *world, s *site, percent int) ([]Row, error) {
	while := w.cfg.Sizes.While
	var until time.Time
	got := make([]int64, others)
	err := s.together(ctx, others, func() error { until = time.Now().Add(while); return nil }, func(i int, r *remote) (err error) {
		got[i], err = r.load(until, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	var all int64
	for _, n := range got {
		all += n
	}
	carries := rate(all, while)
	rows, err := s.beside(ctx, w.cfg.Sizes, percent, carries)
	if err != nil {
		return nil, err
	}
	return append(rows, Row{tableLoad, string(s.kind), fmt.Sprintf("load of %d %%", percent), "what 100 % was", unitRate, distOf([]float64{carries})}), nil
}

// beside measures one connection under one load.
func (s *site) beside(ctx context.Context, sizes Sizes, percent int, carries float64) ([]Row, error) {
	mine, _, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer mine.close()
	each := carries * 1e6 * float64(percent) / 100 / others // bytes per second
	pace := time.Duration(window / each * float64(time.Second))
	var trips, rates []float64
	var until time.Time
	var failed error
	var measuring sync.WaitGroup
	got := make([]int64, others)
	while := 2 * sizes.While // the first half is round trips, the second downloads
	err = s.together(ctx, others, func() error {
		began := time.Now()
		until = began.Add(while)
		measuring.Go(func() {
			for failed == nil && time.Now().Before(began.Add(while/2)) {
				var d time.Duration
				if d, failed = mine.echo(make([]byte, pingSize)); failed == nil {
					trips = append(trips, ms(d))
				}
			}
			for failed == nil && time.Now().Before(until) {
				var d time.Duration
				if d, failed = mine.get(1 << 20); failed == nil {
					rates = append(rates, rate(1<<20, d))
				}
			}
		})
		return nil
	}, func(i int, r *remote) (err error) {
		got[i], err = r.load(until, pace)
		return err
	})
	measuring.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	var all int64
	for _, n := range got {
		all += n
	}
	condition := fmt.Sprintf("load of %d %%", percent)
	row := func(measure, unit string, values []float64) Row {
		return Row{tableLoad, string(s.kind), condition, measure, unit, distOf(values)}
	}
	return []Row{row("round trip", unitMS, trips), row("download of 1 MiB", unitRate, rates),
		row("the load that was reached", unitRate, []float64{rate(all, while)})}, nil
}
