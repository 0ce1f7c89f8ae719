package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chivenet/chive/lab/host"
)

// dials is how many connections are made at the same time.
const dials = 8

// Under traffic each peer asks for a pool's worth of transactions four times a second.
const (
	askEvery = 250 * time.Millisecond
	askSize  = 4 << 10
)

// together makes n connections and runs f for each at the same time, once all are there.
// Between these, it runs before. All are closed in the end.
func (s *site) together(ctx context.Context, n int, before func() error, f func(i int, r *remote) error) error {
	open := make([]*remote, n)
	defer func() {
		for _, r := range open {
			if r != nil {
				r.close()
			}
		}
	}()
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, dials)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			open[i], _, errs[i] = s.connect(ctx)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	for i := range n {
		wg.Go(func() { errs[i] = f(i, open[i]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// crowd measures what a node with so many peers uses, idle and under traffic.
func crowd(ctx context.Context, w *world, s *site, n int) (out []Row, err error) {
	while := w.cfg.Sizes.While
	if n == 0 {
		if err := wait(ctx, while/2); err != nil { // what was before ends
			return nil, err
		}
		return s.used(ctx, while, "no peers")
	}
	var idle, busy []Row
	answers := make([][]float64, n)
	until := make(chan struct{})
	var used error
	var measuring sync.WaitGroup
	err = s.together(ctx, n, func() (err error) {
		if err := wait(ctx, while/2); err != nil {
			return err
		}
		if idle, err = s.used(ctx, while, fmt.Sprintf("%d peers, idle", n)); err != nil {
			return err
		}
		measuring.Go(func() {
			defer close(until)
			busy, used = s.used(ctx, while, fmt.Sprintf("%d peers, traffic", n))
		})
		return nil
	}, func(i int, r *remote) error {
		var err error
		answers[i], err = r.chat(ctx, until, askEvery*time.Duration(i)/time.Duration(n))
		return err
	})
	measuring.Wait()
	if err := errors.Join(err, used); err != nil {
		return nil, err
	}
	var all []float64
	for _, a := range answers {
		all = append(all, a...)
	}
	return append(append(idle, busy...), Row{tableShares, string(s.kind), fmt.Sprintf("%d peers", n), "answer under traffic", unitMS, distOf(all)}), nil
}

// shares measures what each of so many peers gets when all download at once.
func shares(ctx context.Context, w *world, s *site, n int) ([]Row, error) {
	while := w.cfg.Sizes.While
	list := make([]float64, n)
	var until time.Time
	err := s.together(ctx, n, func() error { until = time.Now().Add(while); return nil }, func(i int, r *remote) error {
		got, err := r.load(until, 0)
		list[i] = rate(got, while)
		return err
	})
	if err != nil {
		return nil, err
	}
	d := distOf(list)
	condition := fmt.Sprintf("%d peers", n)
	return []Row{{tableShares, string(s.kind), condition, "download, each peer", unitRate, d},
		{tableShares, string(s.kind), condition, "download, together", unitRate, distOf([]float64{d.Mean * float64(n)})}}, nil
}

// chat asks for an answer again and again until the channel is closed, and returns how long
// the answers took in milliseconds.
func (r *remote) chat(ctx context.Context, until <-chan struct{}, after time.Duration) (took []float64, err error) {
	next := time.NewTimer(after)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-until:
			return took, nil
		case <-next.C:
		}
		began := time.Now()
		d, err := r.get(askSize)
		if err != nil {
			return nil, err
		}
		took = append(took, ms(d))
		next.Reset(max(askEvery-time.Since(began), 0))
	}
}

// used measures the node's processes for a while.
func (s *site) used(ctx context.Context, while time.Duration, condition string) ([]Row, error) {
	type use struct {
		cpu           time.Duration
		memory, ofTor int64
	}
	sum := func() (u use, err error) {
		for _, pid := range s.pids {
			v, err := host.UsageOf(pid)
			if err != nil {
				return u, err
			}
			u.cpu += v.CPU
			u.memory += v.RSS
			if pid == s.tor {
				u.ofTor = v.RSS
			}
		}
		return u, nil
	}
	before, err := sum()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := wait(ctx, while); err != nil {
		return nil, err
	}
	after, err := sum()
	if err != nil {
		return nil, err
	}
	share := 100 * (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds()
	row := func(measure, unit string, v float64) Row {
		return Row{tablePeers, string(s.kind), condition, measure, unit, distOf([]float64{v})}
	}
	out := []Row{row("memory", unitMB, float64(after.memory)/1e6), row("processor", unitShare, share)}
	if s.tor != 0 {
		out = append(out, row("memory of tor alone", unitMB, float64(after.ofTor)/1e6))
	}
	return out, nil
}
