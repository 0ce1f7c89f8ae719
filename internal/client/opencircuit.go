package client

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
)

// OpenCircuit is an open circuit with the decisions about it.
type OpenCircuit struct {
	*circuit.Circuit
	id     uint64
	client *Client
	path   *path.Path
	life   *circuitLife
	legs   []*OpenCircuit // further legs of a conflux set
	once   sync.Once
	byUs   bool // guarded by once: closed by this client

	usable  atomic.Bool                // somebody may get it: it waits for no better guard
	longer  atomic.Bool                // a relay was added for an onion service
	probing atomic.Bool                // see probes
	grown   atomic.Pointer[[]path.Hop] // all hops, once a controller has added some
	excused atomic.Bool                // its end says nothing about the guard
}

// Exit implements pool.PooledCircuit.
func (c *OpenCircuit) Exit() ident.RSAID { return c.exit().Target.RSA }

// Allows implements pool.PooledCircuit.
func (c *OpenCircuit) Allows(dest path.Dest) bool {
	r := c.exit().Relay
	return !r.IsZero() && path.Allows(r, dest)
}

// Leads implements pool.PooledCircuit.
func (c *OpenCircuit) Leads(hops int, next ident.RSAID) bool {
	h := c.hops()
	n := len(h)
	return n == hops && n > 1 && (next.IsZero() || h[n-1].Target.RSA != next && h[n-2].Target.RSA != next)
}

// Stable implements pool.PooledCircuit.
func (c *OpenCircuit) Stable() bool {
	for i, h := range c.hops() {
		if i == 0 && c.client.bridge != nil {
			continue // there is no other choice
		}
		if h.Relay.IsZero() || !h.Relay.Has(netdir.FlagStable) {
			return false
		}
	}
	return true
}

// Steered implements pool.PooledCircuit.
func (c *OpenCircuit) Steered() bool { return c.life.report().Purpose == ForController }

// Legs implements pool.PooledCircuit.
func (c *OpenCircuit) Legs() (n int) {
	for _, leg := range append([]*OpenCircuit{c}, c.legs...) {
		if leg.Err() == nil {
			n++
		}
	}
	return n
}

// Close implements pool.PooledCircuit. It may take until the exit has answered a question: see probes.
func (c *OpenCircuit) Close() {
	if !c.probes() {
		c.closeNow()
	}
}

// closeNow closes the circuit. The exit may end the other legs of a set before this end does.
func (c *OpenCircuit) closeNow() {
	for _, leg := range append([]*OpenCircuit{c}, c.legs...) {
		leg.once.Do(func() { leg.byUs = true })
	}
	c.Circuit.Close(cell.DestroyNone, errUnused)
}

// errUnused is net.ErrClosed for streams that are open when the client closes.
var errUnused = fault.Also(fault.New(fault.Closed, "the circuit is not needed any more"), net.ErrClosed)

// ended runs when the circuit has closed.
func (c *OpenCircuit) ended(cause error) {
	// An event that ends all legs of a conflux set counts against no guard, nor does an
	// onion service that needs the circuit no more.
	c.once.Do(func() {
		c.byUs = errors.Is(cause, circuit.ErrLegClosed) || errors.Is(cause, circuit.ErrLinkGivenUp) || errors.Is(cause, circuit.ErrLinkSlow) || errors.Is(cause, hsservice.ErrDone)
	})
	if u := c.path.Guard; u != nil {
		u.Closed(time.Now(), c.byUs || c.excused.Load())
	}
	c.client.circs.remove(c)
	if c.byUs {
		cause = nil
	} else {
		c.client.log.Debug("circuit ended", "circuit", c.id, "cause", cause)
	}
	c.life.over(CircuitClosed, cause)
	c.client.cfg.Hooks.circuit(CircuitInfo{ID: c.id, State: Closed, Purpose: c.life.report().Purpose, Hops: len(c.hops()), Protection: c.Protection(), Path: c.Relays(), Names: c.names(), Err: cause})
}
