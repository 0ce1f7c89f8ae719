package hsclient

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// A service that this client has met twice in a short time is probably met again, for
// streams of another isolation key. Then a rendezvous point is prepared. A service that is
// met once costs no relay anything.
//
// Introduction circuits are not prepared: the service chooses their last relay, and if that is its own, it would see
// a circuit come just after a meeting, and would know by the introduction on it that two isolation keys are one client's.
// The client chooses the rendezvous point.
const (
	// aheadWithin is the longest time between two meetings of a service after which the
	// third one is prepared.
	aheadWithin = 10 * time.Minute
	// aheadRest is how long that waits at least: the stream that is being opened comes first.
	// It waits for up to as long again, at random.
	aheadRest = 100 * time.Millisecond
	// maxAhead is how many services have something prepared at a time.
	maxAhead = 8
)

// ahead is what is prepared for the next meeting of a service. The client's mu guards it.
type ahead struct {
	met       time.Time // when the descriptor last led to the service
	preparing bool
	next      *next // nil: there is nothing
	timer     *time.Timer
}

// next is a rendezvous point.
type next struct {
	rend   *rendezvous
	stable bool // it is good for long-lived streams
}

func (n *next) close() {
	if n.rend != nil {
		n.rend.close()
	}
}

// meetAgain notes that a descriptor has led to its service, and may prepare the next time.
func (c *Client) meetAgain(desc *cached, stable bool) {
	if !c.mayPrepare(desc, time.Now()) {
		return
	}
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, nil)
		n := &next{stable: stable}
		defer func() {
			if !c.keepNext(desc, n) {
				n.close()
			}
		}()
		rest := time.NewTimer(aheadRest + rand.N(aheadRest))
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-c.ctx.Done():
			return
		}
		if err := c.prepareNext(c.ctx, n); err != nil {
			c.cfg.Log.Debug("the next meeting of an onion service is not prepared", "err", err)
		}
	})
}

// prepareNext makes what the next meeting needs.
func (c *Client) prepareNext(ctx context.Context, n *next) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
	defer cancel()
	m := <-c.prepare(ctx, n.stable)
	n.rend = m.rend
	return m.err
}

// mayPrepare notes a meeting, and reports whether the next one must be prepared.
func (c *Client) mayPrepare(desc *cached, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &desc.ahead
	again := !a.met.IsZero() && now.Sub(a.met) < aheadWithin
	a.met = now
	if !again || a.preparing || a.next != nil || c.closed || c.descs[desc.blinded] != desc {
		return false
	}
	n := 0
	for _, d := range c.descs {
		if d.ahead.preparing || d.ahead.next != nil {
			n++
		}
	}
	a.preparing = n < maxAhead
	return a.preparing
}

// keepNext ends the preparation, and reports whether its result is kept.
func (c *Client) keepNext(desc *cached, n *next) bool {
	stays := c.cfg.Idle()
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &desc.ahead
	a.preparing = false
	if n.rend == nil || c.closed || c.descs[desc.blinded] != desc {
		return false
	}
	a.next = n
	a.timer = time.AfterFunc(stays, panics.Contain(c.cfg.Log, nil, func() { c.expireNext(desc, n) }))
	return true
}

// expireNext closes what nobody needed.
func (c *Client) expireNext(desc *cached, n *next) {
	if c.forgetNext(desc, n) {
		n.close()
	}
}

func (c *Client) forgetNext(desc *cached, n *next) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return desc.ahead.next == n && desc.ahead.takeLocked() != nil
}

// takeNext returns the rendezvous point that is prepared for a meeting, if it can still be used. It is the
// caller's then. The result may be nil.
func (c *Client) takeNext(desc *cached, stable bool) *rendezvous {
	n := c.nextOf(desc)
	if n == nil {
		return nil
	}
	if stable && !n.stable || n.rend.circ.Engine().Err() != nil {
		n.close()
		return nil
	}
	return n.rend
}

func (c *Client) nextOf(desc *cached) *next {
	c.mu.Lock()
	defer c.mu.Unlock()
	return desc.ahead.takeLocked()
}

func (a *ahead) takeLocked() *next {
	n := a.next
	if n != nil {
		a.timer.Stop()
		a.next, a.timer = nil, nil
	}
	return n
}

// dropNextLocked closes what was prepared by a descriptor that is forgotten.
func (c *Client) dropNextLocked(desc *cached) {
	if n := desc.ahead.takeLocked(); n != nil {
		// On another goroutine: the code that is told of a circuit's end may take the lock.
		c.wg.Go(func() {
			defer panics.Recover(c.cfg.Log, nil)
			n.close()
		})
	}
}
