package tord

import (
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
)

const dormantTimeout = "DormantClientTimeout"

// leastDormantTimeout is C tor's.
const leastDormantTimeout = 10 * time.Minute

func checkDormantTimeout(v string) error {
	if n, err := strconv.Atoi(v); err == nil && n < int(leastDormantTimeout/time.Second) {
		return fault.New(fault.Config, "%s is too low. It must be at least 10 minutes.", dormantTimeout)
	}
	return nil
}

// restUnused has a client be dormant that nobody has used for as long as the options say. One that hosts onion
// services or that runs beside a relay never is, as in C tor.
func (t *tor) restUnused(p *plan, c *client.Client, now time.Time) {
	switch {
	case c.Dormant() || c.Hosts() || p.relay != nil || !p.conf.on("DormantTimeoutEnabled"):
		return
	case p.conf.on("DormantTimeoutDisabledByIdleStreams") && c.HasStreams():
		c.Wake() // an open stream is use, though nothing moves
		return
	}
	limit, err := strconv.Atoi(p.conf.one(dormantTimeout))
	if err == nil && now.Sub(c.LastUse()) >= time.Duration(limit)*time.Second {
		t.notice("The client is dormant, because nobody has used it for long: it fetches and builds nothing until it is used.")
		c.Rest()
	}
}

// setDormant has the client be dormant, or not. Without a network, the next client is.
func (t *tor) setDormant(on bool) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.resting.Store(on)
	_, node := t.plan()
	switch {
	case node == nil:
	case on:
		t.notice("The client is dormant, because a controller wants it: it fetches and builds nothing until it is used.")
		node.Inner().Rest()
	default:
		node.Inner().Wake()
	}
}

// keepRest notes whether a client that ends is dormant, and resumeRest has the next one be so.
func (t *tor) keepRest(c *client.Client) { t.resting.Store(c.Dormant()) }

func (t *tor) resumeRest(c *client.Client) {
	if t.resting.Load() {
		c.Rest()
	}
}
