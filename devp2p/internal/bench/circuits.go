package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The ways in which connections get circuits.
const (
	oneForAll  = "one for all"
	oneAPeer   = "one a peer"
	builtAhead = "one a peer, built ahead"
)

// circuits measures how connections get their circuits, of all kinds in turn.
func circuits(ctx context.Context, w *world) (out []Row, err error) {
	sites, err := w.all(ctx, w.cfg.Sizes.onions())
	if err != nil {
		return nil, err
	}
	n := (w.cfg.Sizes.Connections + 1) / 2
	shared := rand.Text()
	touch := func(s *site, key string) error {
		r, _, err := s.by(ctx, key)
		if err == nil {
			r.close()
		}
		return err
	}
	for _, name := range []string{oneForAll, oneAPeer, builtAhead} {
		w.cfg.Progress(name)
		values := make([][]float64, len(sites))
		for i := range n {
			for j, s := range sites {
				key := rand.Text()
				if name == oneForAll {
					key = shared
				}
				if name == builtAhead || name == oneForAll && i == 0 {
					if err := touch(s, key); err != nil {
						return nil, err
					}
				}
				r, stages, err := s.by(ctx, key)
				if err != nil {
					return nil, err
				}
				r.close()
				values[j] = append(values[j], ms(stages.Total()))
			}
		}
		for j, s := range sites {
			out = append(out, Row{tableCircuits, string(s.kind), name, "connection", unitMS, distOf(values[j])})
		}
	}
	for _, name := range []string{oneForAll, oneAPeer} {
		key := rand.Text
		if name == oneForAll {
			key = func() string { return shared }
		}
		for _, s := range sites {
			w.cfg.Progress(fmt.Sprintf("%s: %d downloads: %s", name, others, s.kind))
			sum, err := s.atOnce(ctx, w.cfg.Sizes.While, key)
			if err != nil {
				return nil, err
			}
			out = append(out, Row{tableCircuits, string(s.kind), name, fmt.Sprintf("%d downloads, together", others), unitRate, distOf([]float64{sum})})
		}
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
