package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// circuits measures how connections get their circuits: one for all, one for each peer,
// and one for each that is built ahead.
func circuits(ctx context.Context, w *world, k Kind) (out []Row, err error) {
	s, err := w.site(ctx, k)
	if err != nil {
		return nil, err
	}
	n := (w.cfg.Sizes.Connections + 1) / 2
	shared := rand.Text()
	ahead := make([]string, n)
	touch := func(key string) error {
		r, _, err := s.by(ctx, key)
		if err == nil {
			r.close()
		}
		return err
	}
	for _, c := range []struct {
		name  string
		ready func() error
		key   func(i int) string
	}{
		{"one for all", func() error { return touch(shared) }, func(int) string { return shared }},
		{"one a peer", func() error { return nil }, func(int) string { return rand.Text() }},
		{"one a peer, built ahead", func() (err error) {
			for i := range ahead {
				ahead[i] = rand.Text()
				err = errors.Join(err, touch(ahead[i]))
			}
			return err
		}, func(i int) string { return ahead[i] }},
	} {
		w.cfg.Progress(c.name)
		if err := c.ready(); err != nil {
			return nil, err
		}
		var values []float64
		for i := range n {
			r, stages, err := s.by(ctx, c.key(i))
			if err != nil {
				return nil, err
			}
			r.close()
			values = append(values, ms(stages.Total()))
		}
		out = append(out, Row{tableCircuits, string(k), c.name, "connection", unitMS, distOf(values)})
	}
	for _, c := range []struct {
		name string
		key  func() string
	}{{"one for all", func() string { return shared }}, {"one a peer", rand.Text}} {
		w.cfg.Progress(fmt.Sprintf("%s: %d downloads", c.name, others))
		sum, err := s.atOnce(ctx, w.cfg.Sizes.While, c.key)
		if err != nil {
			return nil, err
		}
		out = append(out, Row{tableCircuits, string(k), c.name, fmt.Sprintf("%d downloads, together", others), unitRate, distOf([]float64{sum})})
	}
	return out, nil
}

// atOnce downloads over several connections at once and returns the sum.
func (s *site) atOnce(ctx context.Context, while time.Duration, key func() string) (float64, error) {
	var open []*remote
	defer func() {
		for _, r := range open {
			r.close()
		}
	}()
	for range others {
		r, _, err := s.by(ctx, key())
		if err != nil {
			return 0, err
		}
		open = append(open, r)
	}
	got, errs := make([]int64, others), make([]error, others)
	until := time.Now().Add(while)
	var wg sync.WaitGroup
	for i, r := range open {
		wg.Go(func() { got[i], errs[i] = r.load(until, 0) })
	}
	wg.Wait()
	var all int64
	for _, n := range got {
		all += n
	}
	return rate(all, while), errors.Join(errs...)
}
