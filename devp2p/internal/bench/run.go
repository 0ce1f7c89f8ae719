package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says what is measured, and how.
type Config struct {
	Sizes Sizes
	// Dir keeps what is finished: a run that was interrupted goes on with it.
	Dir string
	// Program and Args start a measured node: the flags of NodeConfig follow.
	Program string
	Args    []string
	Log     *slog.Logger // nil: no log
	// Progress is told what is being done; nil: nobody is.
	Progress func(string)
}

// A step is a part of a run, which is finished or not.
type step struct {
	name string
	run  func(ctx context.Context, w *world) ([]Row, error)
}

// steps returns the steps of a run, in the order of the report.
func steps(sizes Sizes) []step {
	all := []step{{tableConnection, setups}, {tableThroughput, throughput}, {tablePing, pings}}
	each := func(name string, numbers []int, run func(context.Context, *world, *site, int) ([]Row, error)) {
		for _, n := range numbers {
			all = append(all, step{fmt.Sprintf("%s-%d", name, n), func(ctx context.Context, w *world) (out []Row, err error) {
				for _, k := range sizes.Kinds { // one after the other, so that the same work of others hits them
					s, err := w.site(ctx, k)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", k, err)
					}
					w.cfg.Progress(string(k))
					rows, err := run(ctx, w, s, n)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", k, err)
					}
					out = append(out, rows...)
				}
				return out, nil
			}})
		}
	}
	if len(sizes.Peers) > 0 {
		each(tablePeers, append([]int{0}, sizes.Peers...), crowd)
	}
	each(tableShares, sizes.Spread, shares)
	each(tableLoad, sizes.Loads, load)
	if len(sizes.onions()) > 0 {
		all = append(all, step{tableCircuits, circuits})
	}
	return append(all, step{tablePolicies, policies}, step{tableLinks, overLinks})
}

// Run measures what is not finished, and returns all.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	return run(ctx, cfg, steps(cfg.Sizes))
}

func run(ctx context.Context, cfg Config, list []step) (_ *Report, err error) {
	if err := cfg.Sizes.Check(); err != nil {
		return nil, err
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	report := &Report{About: Here(), Sizes: cfg.Sizes}
	st := store{cfg.Dir}
	if err := st.open(report.About, report.Sizes); err != nil {
		return nil, err
	}
	tell := cfg.Progress
	at := ""
	cfg.Progress = func(s string) { tell(at + s) }
	w, err := newWorld(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for i, s := range list {
		at = fmt.Sprintf("step %d of %d, %s: ", i+1, len(list), s.name)
		var p Part
		found, err := st.read(s.name, &p)
		if err != nil {
			return nil, err
		}
		if found {
			cfg.Progress("is finished already")
		} else {
			p = Part{Step: s.name, Began: time.Now().UTC().Truncate(time.Second)}
			began := time.Now()
			if p.Rows, err = s.run(ctx, w); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			p.Took = time.Since(began).Truncate(time.Millisecond)
			if err := st.write(s.name, p); err != nil {
				return nil, err
			}
		}
		report.Parts = append(report.Parts, p)
	}
	return report, nil
}
