package client

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pool"
)

// runDirectory keeps the directory up to date.
func (c *Client) runDirectory() {
	if err := c.dirs.Run(c.ctx); err != nil {
		c.giveUp(err)
	}
}

// giveUp ends what the client does for a reason that does not pass by itself, such
// as a protocol that the network requires. Close is still the owner's.
func (c *Client) giveUp(err error) {
	c.log.Error("directory", "err", err)
	c.problem(err)
	c.cancel(err)
}

// runUpdates gives each new directory to the parts that use it, and opens the pool
// once there is enough to build circuits.
func (c *Client) runUpdates() {
	var before *netdir.Directory
	for {
		changed := c.dirs.Changed()
		var bridges <-chan struct{}
		if c.bridge != nil {
			_, bridges = c.bridge.answered()
		}
		if d := c.learnNewest(); d != nil {
			if before == nil || !d.ValidAfter().Equal(before.ValidAfter()) {
				c.watch.directory(d, before)
				before = d
			}
			if p := c.pool.Load(); p != nil {
				p.Retry()
			} else if c.dirs.Ready(d, time.Now()) {
				c.openPool()
			}
		}
		select {
		case <-changed:
		case <-bridges: // with a bridge that works, the directory may be enough
		case <-c.ctx.Done():
			return
		}
	}
}

// learned is the directory that the client's parts know.
type learned struct {
	mu sync.Mutex // held while they take one
	d  *netdir.Directory
}

// learnNewest gives the newest directory to all parts, unless they have met a newer one that is not whole yet, and returns it;
// nil: there is none.
func (c *Client) learnNewest() *netdir.Directory {
	c.learned.mu.Lock()
	defer c.learned.mu.Unlock()
	d := c.dirs.Directory()
	if old := c.learned.d; d != nil && (old == nil || !old.ValidAfter().After(d.ValidAfter())) {
		c.newDirectory(d)
		c.learned.d = d
	}
	return d
}

// known returns the directory that the parts know; nil: none.
func (c *Client) known() *netdir.Directory {
	c.learned.mu.Lock()
	defer c.learned.mu.Unlock()
	return c.learned.d
}

// meet sees to it that all parts know a directory at least as new as d: a request for what a consensus lacks comes before
// runUpdates has seen that consensus, and must go to a guard, as C tor's does.
func (c *Client) meet(d *netdir.Directory) {
	c.learned.mu.Lock()
	defer c.learned.mu.Unlock()
	if old := c.learned.d; old == nil || d.ValidAfter().After(old.ValidAfter()) {
		c.newDirectory(d)
		c.learned.d = d
	}
}

// guardLacks reports whether the directory lacks what circuits by the guards need.
func (c *Client) guardLacks(d *netdir.Directory) bool {
	c.meet(d)
	return c.guards.Lacks(time.Now())
}

// newDirectory gives a directory to all that take parameters from it.
func (c *Client) newDirectory(d *netdir.Directory) {
	now := time.Now()
	c.guards.Update(guard.FromNetdir(d), now)
	c.filter.set(c.guards, &c.live, d)
	p := flow.ParamsFrom(d.Param)
	c.flow.Store(&p)
	required := d.RequiredOfRelays()
	c.ofRelays.Store(&required)
	c.sets.Store(setNumbersOf(d))
	c.padding.Set(channel.PaddingFrom(d.Param, c.cfg.Padding))
	c.env.Padding.Set(c.circuitPadding(circuit.PaddingParamsFrom(d.Param)))
	c.times.use(func(e *cbt.Estimator) { e.SetParams(c.cbtParams(d.Param)) })
	c.keepCircuits(d)
}

// keepCircuits tells the pool, if there is one, how long the consensus wants circuits kept.
func (c *Client) keepCircuits(d *netdir.Directory) {
	if p := c.pool.Load(); p != nil && d != nil {
		p.SetAvailable(channel.AvailableFrom(d.Param, c.cfg.Padding))
	}
}

// circuitPadding returns what the consensus and the user both allow.
func (c *Client) circuitPadding(p circuit.PaddingParams) circuit.PaddingParams {
	p.Disabled = p.Disabled || c.cfg.CircuitPadding == channel.PadOff
	p.Reduced = p.Reduced || c.cfg.CircuitPadding == channel.PadReduced
	return p
}

// openPool opens the pool, once, and tells those who wait for it.
func (c *Client) openPool() {
	cfg := pool.Config{Live: c.live.Load().Live, Log: c.log, Rand: newRand(), Learn: c.times.wantTest, Resting: c.Dormant}
	if !c.cfg.Fast {
		cfg.Common = c.common()
	}
	p := pool.New(cfg, c)
	c.pool.Store(p)
	p.Set(c.live.Load().Live) // it may have changed meanwhile
	c.keepCircuits(c.known())
	close(c.poolReady)
	c.bootProgress(80, "building circuits")
}
