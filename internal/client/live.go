package client

import (
	"reflect"
	"time"

	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/path"
)

// Live has the settings of a Config that may change while a client runs.
type Live struct {
	Path          path.Config
	Map           *AddrMap      // hosts that stand for others
	StreamTimeout time.Duration // as in Config
	MaxDirtiness  time.Duration // as in pool.Config
	OnionKeys     hsclient.Keys // as in Config
	Countries     *Countries    // as in Config
}

// OnionKeys returns the keys for onion services.
func (c *Client) OnionKeys() hsclient.Keys { return c.live.Load().OnionKeys }

// SetOnionKeys takes over other keys for onion services. It must not run together with Reload.
func (c *Client) SetOnionKeys(k hsclient.Keys) {
	l := *c.live.Load()
	l.OnionKeys = k
	old := c.live.Swap(&l)
	c.onion.ChangedKeys(old.OnionKeys, k)
}

// Reload takes over new settings, for circuits and streams from now on. If other
// relays are wanted, existing circuits take no new streams.
func (c *Client) Reload(l Live) {
	old := c.live.Swap(&l)
	c.onion.ChangedKeys(old.OnionKeys, l.OnionKeys)
	c.filter.set(c.guards, &c.live, c.dirs.Directory())
	// A pool that opens at this moment has the settings already, or is here.
	if p := c.pool.Load(); p != nil {
		p.SetMaxDirtiness(l.MaxDirtiness)
	}
	if !reflect.DeepEqual(old.Path, l.Path) || old.Countries.known() {
		c.newCircuits()
	}
}
