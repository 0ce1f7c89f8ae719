package tord

import "github.com/chivenet/chive/internal/client"

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
