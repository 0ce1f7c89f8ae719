package client

import (
	"reflect"
	"time"

	"github.com/chivenet/chive/internal/path"
)

// Live is what of a Config may change while a client runs.
type Live struct {
	Path          path.Config
	StreamTimeout time.Duration // as in Config
	MaxDirtiness  time.Duration // as in pool.Config
}

// Reload takes over new settings, for circuits that are built and streams that
// are opened from now on: where other relays are wanted, circuits that exist take
// no new streams.
func (c *Client) Reload(l Live) {
	old := c.live.Swap(&l)
	if d := c.dirs.Directory(); d != nil {
		c.guards.SetFilter(l.Path.GuardFilter(d), time.Now())
	}
	// A pool that opens at this moment has the settings already, or is here.
	if p := c.pool.Load(); p != nil {
		p.SetMaxDirtiness(l.MaxDirtiness)
		if !reflect.DeepEqual(old.Path, l.Path) {
			p.NewIdentity()
		}
	}
}
