package client

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
)

// store returns where a state is kept: a file in the network's directory, or
// memory.
func (cfg *Config) store(name string) guard.Store {
	if cfg.Dir == "" {
		return new(guard.MemStore)
	}
	return guard.FileStore(filepath.Join(cfg.Dir, name))
}

// sweepState removes the unfinished files that a killed process left beside the state.
func sweepState(cfg *Config) {
	if cfg.Dir == "" {
		return
	}
	if err := atomicfile.Sweep(cfg.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Log.Warn("the data directory has unfinished files that cannot be removed", "err", err)
	}
}

func newGuards(cfg *Config) (*guard.Manager, error) {
	patience := guardPatience
	if cfg.Fast {
		patience = 0
	}
	return guard.New(guard.Config{
		Patience: patience, NextToo: !cfg.Fast,
		Version: "chive", Rand: newRand(), Log: cfg.Log,
		UseBridges: len(cfg.Bridges) > 0, Filter: cfg.Path.GuardFilter(nil),
		NumTraffic: cfg.NumEntryGuards, NumDirectory: cfg.NumDirectoryGuards,
	}, cfg.store("guards.json"), time.Now())
}

// sawLink looks at each new link: where it leads, and its clock.
func (c *Client) sawLink(l *channel.Link) {
	if c.bridge != nil && !c.bridge.opened(l.Conn.NetConn(), l.Dialled) {
		_ = l.Conn.NetConn().Close() // the bridge was removed while the link was opened
	}
	if skew := l.ClockSkew; l.ClockSkewKnown && (skew > maxSkew || skew < -maxSkew) {
		c.log.Warn("a relay's clock differs from this machine's by much; if more do, set this machine's clock", "by", skew.Round(time.Minute), "relay", l.Peer)
		c.problem(fault.New(fault.Local, "this machine's clock differs from a relay's by %v", skew.Round(time.Minute)))
	}
}

// maxSkew is how far clocks may differ without a warning.
const maxSkew = 30 * time.Minute

// runGuards saves the guards when they change, and lets the manager do its
// regular work.
func (c *Client) runGuards() { keepGuards(c.ctx, c.guards, c.log) }

// runVanguards saves the vanguards when they change, which is seldom.
func (c *Client) runVanguards() {
	var again <-chan time.Time
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.vanguards.Changed():
		case <-again:
		}
		again = nil
		if err := c.vanguards.Save(); err != nil {
			c.log.Error("vanguards could not be saved", "err", err)
			again = time.After(guardSavesAfter)
		}
	}
}

// guardKeeping is what keepGuards needs of guard.Manager.
type guardKeeping interface {
	Changed() <-chan struct{}
	Save() error
	Tick(now time.Time) time.Time
}

const (
	// guardSaves is the least time between two times that the guards are saved:
	// the counts of path bias change with every circuit, and each time waits for
	// the disk.
	guardSaves = 10 * time.Second
	// guardSavesAfter is the same after one that failed, which is an error in the log.
	guardSavesAfter = time.Minute
)

func keepGuards(ctx context.Context, guards guardKeeping, log *slog.Logger) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	var rested <-chan time.Time // when not nil, it is too early to save again
	changed := false            // since the guards were saved
	for {
		select {
		case <-ctx.Done():
			return
		case <-guards.Changed():
			changed = true
		case <-rested:
			rested = nil
		case <-timer.C:
		}
		if changed && rested == nil {
			rest := guardSaves
			changed = false
			if err := guards.Save(); err != nil {
				log.Error("the guards cannot be saved: a restart will choose others", "err", err)
				changed, rest = true, guardSavesAfter
			}
			rested = time.After(rest)
		}
		wait := 10 * time.Second
		if next := guards.Tick(time.Now()); !next.IsZero() {
			wait = max(10*time.Millisecond, min(wait, time.Until(next)))
		}
		timer.Reset(wait)
	}
}

// readyInterval is how often the client looks whether its directory has expired.
const readyInterval = 10 * time.Second

// runHousekeeping closes idle channels and directory circuits, notes whether
// anything arrives, and saves the build times now and then.
func (c *Client) runHousekeeping() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var cells uint64
	saved, watched := time.Now(), time.Now()
	var moved movement
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-tick.C:
			if n := c.stats.CellsIn.Load(); n != cells {
				cells = n
				c.times.use(func(e *cbt.Estimator) { e.Traffic(now) })
			}
			if c.cfg.Fast || c.pool.Load() == nil { // else the pool's clock says when
				c.caches.reap(now)
				c.seconds.tick()
			}
			c.chans.Reap()
			moved.look(c)
			if now.Sub(watched) >= readyInterval {
				watched = now
				c.watchReady()
			}
			if now.Sub(saved) > 10*time.Minute {
				saved = now
				if err := c.times.save(c.cfg.timesStore()); err != nil {
					c.log.Warn("build times", "err", err)
				}
			}
		}
	}
}
