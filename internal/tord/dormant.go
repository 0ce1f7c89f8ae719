package tord

import (
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
)

const (
	dormantCanceled = "DormantCanceledByStartup"
	dormantFirst    = "DormantOnFirstStartup"
	dormantTimeout  = "DormantClientTimeout"
)

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

// keepRest notes whether a client that ends is dormant and for how long nobody has used it: the next one begins so.
func (t *tor) keepRest(c *client.Client) {
	t.resting.Store(c.Dormant())
	t.unused.Store(int64(time.Since(c.LastUse())))
}

// tellRest tells of the first step of the bootstrap, which is all that a client does that begins dormant. Programs wait for it.
func (t *tor) tellRest(node *daemon.Hosted) {
	if !node.Inner().Dormant() {
		return
	}
	t.mu.Lock()
	t.phase = phases[0]
	t.mu.Unlock()
	t.notice("Bootstrapped %d%% (%s): %s", phases[0].percent, phases[0].tag, phases[0].summary)
	t.tell("STATUS_CLIENT", phases[0].status(""))
}
