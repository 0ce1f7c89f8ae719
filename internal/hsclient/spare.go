package hsclient

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

const (
	// spareWait is how long after a connection the point for the next one is made: a
	// stream is being opened, which must not share its relays with that. Up to spareSpread
	// more, by chance, makes it harder for the point's relay to tell which connection it
	// followed.
	spareWait   = 50 * time.Millisecond
	spareSpread = 200 * time.Millisecond
	// spareLife is how long a point waits for the next connection.
	spareLife = 2 * time.Minute
)

// spare is a rendezvous point that was made ahead, for the next connection to any service.
// Its relay knows neither which one that will be, nor which one the last was: all of this is
// on a circuit of its own. The client's mu guards it.
type spare struct {
	rend   *rendCircuit // nil: there is none
	stable bool
	making bool        // it is being made
	timer  *time.Timer // makes it, or ends it; may be nil
}

// stopLocked takes the point out, and ends what would have happened to it.
func (s *spare) stopLocked() *rendCircuit {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	r := s.rend
	s.rend = nil
	return r
}

// takeSpare returns the spare rendezvous point, if there is one that is as stable as asked
// for. An attempt has begun: none is made meanwhile.
func (c *Client) takeSpare(stable bool) *rendCircuit {
	r := c.removeSpare(stable)
	if r != nil && r.circ.Engine().Err() != nil {
		r.close()
		return nil
	}
	return r
}

// dropSpare closes the spare rendezvous point.
func (c *Client) dropSpare() {
	if r := c.removeSpare(false); r != nil {
		r.close()
	}
}

func (c *Client) removeSpare(stable bool) *rendCircuit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spare.rend != nil && stable && !c.spare.stable {
		return nil
	}
	return c.spare.stopLocked()
}

// restock has a spare rendezvous point made soon, unless there is one.
func (c *Client) restock(stable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cfg.Spare || c.closed || c.spare.rend != nil {
		return
	}
	c.spare.stopLocked()
	c.spare.timer = time.AfterFunc(spareWait+rand.N(spareSpread), panics.Contain(c.cfg.Log, nil, func() { c.makeSpare(stable) }))
}

func (c *Client) makeSpare(stable bool) {
	epoch, ok := c.startSpare()
	if !ok {
		return
	}
	defer c.endSpare()
	ctx, cancel := context.WithTimeout(c.ctx, establishTimeout)
	defer cancel()
	circ, err := c.cfg.Network.Internal(ctx, stable)
	var r *rendCircuit
	if err == nil {
		r = newRendCircuit(circ)
		err = r.establish(ctx)
	}
	if err != nil {
		c.cfg.Log.Debug("no rendezvous point was made ahead", "err", err)
		return
	}
	if !c.keepSpare(r, stable, epoch) {
		r.close()
	}
}

// startSpare counts a goroutine that makes a point, for which Close waits; false if it is too
// late, or if another one makes it: many connections at a time need no more circuits.
func (c *Client) startSpare() (epoch int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.spare.making {
		return 0, false
	}
	c.spare.making = true
	c.wg.Add(1)
	return c.epoch, true
}

// endSpare ends startSpare.
func (c *Client) endSpare() {
	defer c.wg.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare.making = false
}

// keepSpare keeps a point, unless a new identity was asked for since, or there is one.
func (c *Client) keepSpare(r *rendCircuit, stable bool, epoch int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.epoch != epoch || c.spare.rend != nil {
		return false
	}
	c.spare.stopLocked()
	c.spare.rend, c.spare.stable = r, stable
	c.spare.timer = time.AfterFunc(spareLife, panics.Contain(c.cfg.Log, nil, c.dropSpare))
	return true
}
