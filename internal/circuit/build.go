package circuit

import (
	"context"
	"sync"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
)

// Route is a circuit to be built.
type Route struct {
	Targets []linkspec.Target
	// Options are those of each hop, except that Protect can decide the handshake,
	// and that a handshake for first hops is the first hop's only.
	Options HopOptions
	// Protect is what PQPolicy.Plan returned; nil protects nothing.
	Protect []Protection
	// Strict rekeys a hop before the next extend passes through it; otherwise
	// rekeys are made once all hops are there, at the same time.
	Strict bool
	// Built is told of each hop that is there, from 1; in strict mode, after its
	// rekey. May be nil.
	Built func(n int)
}

// BuildError says at which hop a circuit failed, from 1; 0 when a rekey failed
// while several hops had one.
type BuildError struct {
	Hop int
	Err error
}

func (e *BuildError) Error() string { return e.Err.Error() }
func (e *BuildError) Unwrap() error { return e.Err }

// start starts the handshake with the i-th target.
func (r *Route) start(env *Env, i int) (*clientHandshake, error) {
	opts := r.Options
	if i > 0 && opts.Handshake != nil && opts.Handshake.Form.Extend == 0 {
		opts.Handshake = nil
	}
	if p := r.protection(i); p.Carriage == handshake.CarriageA {
		opts.Handshake = p.Set.Kind()
	}
	return startHandshake(env, r.Targets[i], opts)
}

func (r *Route) protection(i int) Protection {
	if r.Protect == nil {
		return Protection{}
	}
	return r.Protect[i]
}

// Build builds a client's circuit over a channel to the first target. When a
// hop fails, so does the circuit. Build tries no hop in another way than Protect
// says: else an attacker that can make a hop fail could choose what protects it.
// The error is a *BuildError.
func Build(ctx context.Context, env *Env, ch *channel.Channel, r *Route) (*Circuit, error) {
	var c *Circuit
	hs, err := r.start(env, 0)
	for i := range r.Targets {
		var next *clientHandshake
		var nextErr error
		// While a relay computes its answer, this side makes the next onionskin.
		meanwhile := func() {
			if i+1 < len(r.Targets) {
				if next, nextErr = r.start(env, i+1); nextErr == nil {
					next.ahead = next.spent
				}
			}
		}
		switch {
		case i > 0:
			err = c.extendBy(ctx, hs, err, meanwhile)
		case err == nil:
			c, err = createBy(ctx, env, ch, hs, meanwhile)
		}
		if p := r.protection(i); err == nil && r.Strict && p.Carriage == handshake.CarriageB {
			err = c.Last().Rekey(ctx, p.Set)
		}
		if err != nil {
			if next != nil {
				next.wipe()
			}
			return nil, &BuildError{i + 1, err}
		}
		hs, err = next, nextErr
		if r.Built != nil {
			r.Built(i + 1)
		}
	}
	if !r.Strict {
		if err := c.rekeyAll(ctx, r.Protect); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// rekeyAll rekeys the hops whose protection is by carriage B, all at once.
func (c *Circuit) rekeyAll(ctx context.Context, protect []Protection) error {
	errs := make([]error, len(protect))
	var wg sync.WaitGroup
	blame, under := 0, 0
	for i, p := range protect {
		if p.Carriage != handshake.CarriageB {
			continue
		}
		if blame = i + 1; under > 0 {
			blame = 0 // one failure closes the circuit, and all fail
		}
		under++
		wg.Go(func() {
			defer panics.Recover(c.env.Log, func(err error) { errs[i] = err })
			errs[i] = c.Hops()[i].Rekey(ctx, p.Set)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return &BuildError{blame, err}
		}
	}
	return nil
}
