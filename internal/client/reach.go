package client

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/upstream"
)

// reach remembers whether relays answer, so that a client without a working
// connection does not call itself ready.
type reach struct {
	mu     sync.Mutex // guards what follows
	failed int        // links in a row that could not be opened
	since  time.Time  // the first of them
	last   error
}

// silentAfter is how many links in a row must fail until this says more about the
// connection of this machine than about a relay.
const silentAfter = 3

// link returns an open link to the relay, and notes whether the relay answered.
func (c *Client) link(ctx context.Context, t linkspec.Target) (*channel.Channel, error) {
	t, err := c.live.Load().Path.Reachable.Target(t)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "open channel: %w", err)
	}
	ch, err := c.chans.Get(ctx, t)
	switch {
	case err == nil:
		c.reach.answered()
	case ctx.Err() == nil || errors.Is(err, errBuildTimeout):
		c.reach.unanswered(err, time.Now())
	default:
		return nil, err // nobody waits for it any more
	}
	c.watchReady()
	return ch, err
}

// reachedAt returns the address that requests to a directory name, which is the one by which C tor would connect to it. One
// that no rule allows keeps its first address: nobody will connect to it.
func (c *Client) reachedAt(t linkspec.Target) []netip.AddrPort {
	if may, err := c.live.Load().Path.Reachable.Target(t); err == nil {
		t = may
	}
	return t.OneAddress().Addrs
}

func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.last = 0, nil
}

func (r *reach) unanswered(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == 0 {
		r.since = now.Round(0)
	}
	r.failed, r.last = r.failed+1, err
}

// probeTime bounds a connection to the upstream proxy that only shows whether it listens.
const probeTime = 3 * time.Second

// proxyFailed reports whether the upstream proxy is the cause of an error before the first
// hop: then the guard is not to blame. Links that were open end with the proxy, too, and a
// proxy that is silent looks like a guard that is, so this asks whether the proxy listens.
func (c *Client) proxyFailed(ctx context.Context, err error) bool {
	p := c.cfg.Upstream
	if p == nil || upstream.Failed(err) {
		return p != nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return !p.Listens(ctx, c.cfg.Dial)
}

// problem returns why no relay can be reached; nil if some can, as far as is known.
func (r *reach) problem(bridges, proxied bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed < silentAfter {
		return nil
	}
	advice := "check this machine's connection and firewall; where Tor is blocked, use bridges"
	if bridges {
		advice = "check this machine's connection, or try other bridges"
	}
	if proxied {
		advice = "check the upstream proxy, and what it lets through"
	}
	return fault.New(fault.Network, "no relay answers since %s (%w): %s", r.since.UTC().Format("15:04:05 UTC"), r.last, advice)
}
