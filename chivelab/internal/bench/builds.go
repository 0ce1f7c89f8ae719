package bench

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// chiveBuilder makes a client role in this process build circuits for c, without
// the pool, which builds circuits on its own.
func (b *clientBench) chiveBuilder(ctx context.Context, c *contender, dir string) error {
	rec := &recorder{}
	cfg := client.Config{Network: b.network, Dir: dir, Conflux: client.Off, Hooks: client.Hooks{Circuit: rec.circuit}}
	cfg.Path.SameSubnet = !b.network.Testing.EnforceDistinctSubnets
	for i, set := range []*path.Set{&cfg.Path.Entry, &cfg.Path.Middle, &cfg.Path.Exit} {
		if b.path == nil {
			break
		}
		cfg.Path.Strict = true
		var err error
		if *set, err = path.ParseSet([]string{b.path[i].ID.RSA.String()}); err != nil {
			return err
		}
	}
	addr, err := netip.ParseAddrPort(b.target.Addr(target.Echo))
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	cl, err := client.New(cfg)
	if err != nil {
		return err
	}
	c.onClose(cl.Close)
	if err := cl.Wait(ctx); err != nil {
		return err
	}
	c.build = func(ctx context.Context) ([]time.Duration, error) {
		circ, err := cl.Build(ctx, pool.Spec{Spec: path.Spec{Dests: []path.Dest{{Addr: addr.Addr(), Port: addr.Port()}}}})
		if err != nil {
			return nil, err
		}
		circ.Close()
		return rec.last(), nil
	}
	return quiet(ctx, cl)
}

// quiet waits until the client builds nothing.
func quiet(ctx context.Context, c *client.Client) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 10 { // ten times in a row
		for c.Status().Building > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fault.New(fault.Timeout, "circuit builds: %w", context.Cause(ctx))
			}
		}
		<-tick.C
	}
	return nil
}

// recorder remembers how long the hops of the newest circuit took.
type recorder struct {
	mu   sync.Mutex
	hops []time.Duration // guarded by mu
}

func (r *recorder) circuit(i client.CircuitInfo) {
	if i.State != client.Open {
		return
	}
	hops := make([]time.Duration, len(i.Took))
	var before time.Duration
	for n, t := range i.Took {
		hops[n], before = t-before, t
	}
	r.mu.Lock()
	r.hops = hops
	r.mu.Unlock()
}

func (r *recorder) last() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hops
}
