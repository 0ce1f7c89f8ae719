package client

import (
	"reflect"
	"time"

	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/pt"
)

// Live is the part of a Config that may change while a client runs: the one list of it. Fields
// that are as the user gave them have the names of package chive's Config (see role.Take).
type Live struct {
	pool.Live
	StreamTimeout time.Duration // zero: 10 s, then 15 s
	// IsolateDestAddr and IsolateDestPort keep apart streams to different hosts or ports.
	IsolateDestAddr, IsolateDestPort bool

	Path      path.Config
	Map       *AddrMap      // hosts that stand for others
	Countries *Countries    // of exits that a request may choose; nil: none can be
	OnionKeys hsclient.Keys // the keys by which onion services know this client

	// Bridges, when there are any, are the only relays that are connected to, by the Transports
	// that they need. A client that has bridges must keep some, and one without them gets none.
	Bridges    []pt.BridgeLine
	Transports []pt.TransportLine
}

// Isolation returns the fields by which all streams of the client are kept apart.
func (c *Client) Isolation() (by isolation.By) {
	l := c.live.Load()
	if l.IsolateDestAddr {
		by |= isolation.ByDestAddr
	}
	if l.IsolateDestPort {
		by |= isolation.ByDestPort
	}
	return by
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
// relays are wanted, existing circuits take no new streams. CheckBridges must have accepted the bridges
// and transports.
func (c *Client) Reload(l Live) {
	old := c.live.Load()
	if old.Countries.same(l.Countries) {
		l.Countries = old.Countries
	}
	c.live.Store(&l)
	c.mapping.configure(l.Map)
	c.onion.ChangedKeys(old.OnionKeys, l.OnionKeys)
	c.filter.set(c.guards, &c.live, c.dirs.Directory())
	// A pool that opens at this moment has the settings already, or is here.
	if p := c.pool.Load(); p != nil {
		p.Set(l.Live)
	}
	if !reflect.DeepEqual(old.Path, l.Path) || l.Countries != old.Countries && old.Countries.known() {
		c.newCircuits()
	}
	c.setBridges(l.Bridges, l.Transports)
}
