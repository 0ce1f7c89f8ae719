package hsclient

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// A client that looks like C tor's asks a service at one introduction point after the other, and has one rendezvous circuit at a
// time: guards and relays would see two. A wait ends when C tor would end it (Config.Limit), and with it its circuit. Then
// the next point is asked, over and over, until the attempt's two minutes are over: as C tor does.

// maxSerial bounds the introductions of one attempt: C tor's have no bound but the time, and are a second apart at least.
const maxSerial = int(connectTimeout / time.Second)

// serial reports whether a race asks at one point at a time. A service that asks for proofs of work is asked as race says in either case:
// each introduction bids more than the one before.
func (r *race) serial() bool { return r.c.cfg.Limit != nil && r.puzzle == nil }

// refill has a serial race go on with the points that can be used by now; it reports whether there are any.
func (r *race) refill() bool {
	if r.more == nil || !r.serial() {
		return false
	}
	points := r.more() // not under the mutex: it takes the client's
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.points) == 0 {
		r.points = points
	}
	return len(r.points) > 0
}

// usableNow returns a function that returns the points of a descriptor that can be used now.
func (h *history) usableNow(desc *cached) func() []*netdoc.HSIntroPoint {
	return func() []*netdoc.HSIntroPoint {
		points, _ := h.usable(desc)
		return points
	}
}

// limit bounds a wait as C tor does, or else by a fixed time.
func (c *Client) limit(ctx context.Context, w cbt.Wait, fixed time.Duration, cause error) (context.Context, context.CancelFunc) {
	if c.cfg.Limit == nil {
		return context.WithTimeoutCause(ctx, fixed, cause)
	}
	return c.cfg.Limit(ctx, w, fixed, cause)
}

var errNotCome = fault.New(fault.Timeout, "onion service: %w in time", ErrRendezvous)

// awaitSerial waits for an introduced service, as long as C tor does.
func (c *Client) awaitSerial(ctx context.Context, rend *rendCircuit) (*circuit.Hop, error) {
	within, cancel := c.limit(ctx, cbt.ServiceCame, rendezvousTimeout, errNotCome)
	defer cancel()
	engine := rend.circ.Engine()
	select {
	case hop := <-rend.joined:
		return hop, nil
	case <-engine.Done():
		return nil, fault.New(fault.Network, "onion service: %w: %w", ErrRendezvous, engine.Err())
	case <-within.Done():
		if ctx.Err() != nil {
			return nil, gaveUp(ctx, nil)
		}
		return nil, errNotCome
	}
}

// came returns the service's hop if it has come although the introduction point has not answered; nil: it has not.
func (r *rendCircuit) came() *circuit.Hop {
	select {
	case hop := <-r.joined:
		return hop
	default:
		return nil
	}
}
