package client

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
)

// buildTimes has what is learned of the times that circuits take.
type buildTimes struct {
	mu sync.Mutex // guards what follows
	e  *cbt.Estimator
}

// load reads what was learned. What is damaged is reported, set aside, and learned anew.
func (t *buildTimes) load(st guard.Store, p cbt.Params, log *slog.Logger) error {
	e, err := readBuildTimes(st, p, log)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e = e
	return nil
}

func readBuildTimes(st guard.Store, p cbt.Params, log *slog.Logger) (*cbt.Estimator, error) {
	b, err := st.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return cbt.New(p), nil
	}
	if err != nil {
		return nil, fault.New(fault.Local, "read the learned build times: %w", err)
	}
	e, err := cbt.Decode(b, p, newRand())
	if err != nil {
		log.Warn("the learned build times are unreadable; they are set aside and learned anew", "err", err)
		return cbt.New(p), st.SetAside()
	}
	return e, nil
}

// use calls f with the estimator, under its lock.
func (t *buildTimes) use(f func(*cbt.Estimator)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.e)
}

func (t *buildTimes) save(st guard.Store) error {
	var b []byte
	t.use(func(e *cbt.Estimator) { b = e.Encode() })
	if err := st.Save(b); err != nil {
		return fault.New(fault.Local, "save the learned build times: %w", err)
	}
	return nil
}

// wantTest reports whether the pool shall build a circuit to learn from, and counts it.
func (t *buildTimes) wantTest(open int) (want bool) {
	now := time.Now()
	t.use(func(e *cbt.Estimator) {
		// By C tor's clock, of whole seconds, more than the time between two tests must have passed.
		if want = e.WantTest(now.Add(-learnSlack), open); want {
			e.Launched(now)
		}
	})
	return want
}

// learnSlack is half a second of the clock by which circuits are built ahead.
const learnSlack = time.Second / 2

// timesStore is where the build times are kept.
func (cfg *Config) timesStore() guard.Store { return cfg.store("build-times.json") }

func noParam(_ string, def, _, _ int32) int32 { return def }

// cbtParams reads the consensus's parameters of build timeouts; a configured
// timeout turns learning off. In a laboratory, whose relays share a few processors without a network between them, circuits take milliseconds, and seconds
// whenever something else runs: the timeout that is learned there is a second at least, or a busy machine would have no circuits for minutes.
func (c *Client) cbtParams(get func(string, int32, int32, int32) int32) cbt.Params {
	p := cbt.ParamsFrom(get)
	if c.cfg.BuildTimeout > 0 {
		p.Disabled, p.InitialTimeout = true, c.cfg.BuildTimeout
	}
	if c.cfg.Network.Testing.AllowPrivateAddresses {
		p.MinTimeout = max(p.MinTimeout, minUsage)
	}
	return p
}
