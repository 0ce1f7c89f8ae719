package hsclient

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// maxLingering is how many introduction circuits stay open after their introduction;
// the oldest closes for another one. C tor has no bound.
const maxLingering = 256

// lingering has the circuits to introduction points that have padding machines, the
// oldest first. They stay open as long as circuits of streams do: a guard could tell a
// circuit that closes at once from those (padding-spec). The client's mu guards it.
type lingering []*lingerer

type lingerer struct {
	circ  OwnedCircuit
	timer *time.Timer
}

// leaveIntro ends the use of a circuit to an introduction point: it closes now, or
// later if it has padding machines.
func (c *Client) leaveIntro(circ OwnedCircuit) {
	if e := circ.Engine(); !e.Padded() || e.Err() != nil {
		circ.Close()
		return
	}
	l := &lingerer{circ: circ}
	if old := c.addLingerer(l, c.cfg.Idle()); old != nil {
		c.endOneLingerer(old)
	}
	circ.Engine().OnClose(func(error) { c.endOneLingerer(l) })
}

// addLingerer returns the one that must go.
func (c *Client) addLingerer(l *lingerer, stays time.Duration) (old *lingerer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.timer = time.AfterFunc(stays, panics.Contain(c.cfg.Log, nil, func() { c.endOneLingerer(l) }))
	if len(c.lingering) >= maxLingering {
		old = c.lingering[0]
	}
	c.lingering = append(c.lingering, l)
	return old
}

func (c *Client) endOneLingerer(l *lingerer) {
	c.forgetLingerer(l)
	l.circ.Close()
}

func (c *Client) forgetLingerer(l *lingerer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.timer.Stop()
	c.lingering = slices.DeleteFunc(c.lingering, func(o *lingerer) bool { return o == l })
}

// endAllLingerers closes all of them.
func (c *Client) endAllLingerers() {
	for {
		l := c.oldestLingerer()
		if l == nil {
			return
		}
		c.endOneLingerer(l)
	}
}

func (c *Client) oldestLingerer() *lingerer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lingering) == 0 {
		return nil
	}
	return c.lingering[0]
}
