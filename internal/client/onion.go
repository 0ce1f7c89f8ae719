package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/stream"
)

const (
	// onionStreamTimeout is how long a service may take to open a stream: it has its
	// own connection to make.
	onionStreamTimeout = time.Minute
	// onionTries is how many circuits a stream to a service is tried on.
	onionTries = 2
)

// clientNetwork is the client as hsclient sees it.
type clientNetwork struct{ *Client }

var _ hsclient.Network = clientNetwork{}

func newOnion(c *Client) *hsclient.Client {
	t := c.cfg.Network.Testing
	var rest func(hsclient.OwnedCircuit)
	var limit cbt.Limiter
	if !c.cfg.Fast {
		limit = c.limit
		rest = func(o hsclient.OwnedCircuit) { c.served.keep(o.Engine(), o.Close) }
	}
	return hsclient.New(hsclient.Config{
		Network: clientNetwork{c}, Log: c.log, Memory: c.memory, Testing: t.AllowPrivateAddresses, Private: t.AllowPrivateAddresses, PQ: c.cfg.onionPQ(), CGO: c.cfg.CGO != Off, MaxEffort: c.cfg.OnionMaxEffort,
		Idle: func() time.Duration { return pool.Dirtiness(c.live.Load().MaxCircuitDirtiness) },
		Keys: func() hsclient.Keys { return c.live.Load().OnionKeys },
		Tell: c.tellOnion, Spare: c.cfg.Fast, Once: !c.cfg.Fast, Rest: rest, Limit: limit,
	})
}

// Directory implements hsclient.Network.
func (n clientNetwork) Directory(ctx context.Context) (*netdir.Directory, error) {
	if _, err := n.waitPool(ctx); err != nil {
		return nil, err
	}
	d := n.dirs.Directory()
	if d == nil || !n.dirs.Ready(d, time.Now()) {
		return nil, fault.New(fault.Directory, "onion service: there is no usable directory yet")
	}
	return d, nil
}

// leasedCircuit is a circuit that one lease of the pool has for itself.
type leasedCircuit struct {
	*OpenCircuit
	lease *pool.Lease
	last  linkspec.Target
	once  sync.Once
}

func (o *leasedCircuit) Engine() *circuit.Circuit { return o.OpenCircuit.Circuit }
func (o *leasedCircuit) ID() uint64               { return o.OpenCircuit.id }
func (o *leasedCircuit) Last() linkspec.Target    { return o.last }

// Close gives the circuit back to the pool, which closes it: it was private.
func (o *leasedCircuit) Close() { o.once.Do(o.lease.Release) }

// Internal implements hsclient.Network.
func (n clientNetwork) Internal(ctx context.Context, stable bool) (hsclient.OwnedCircuit, error) {
	return n.internal(ctx, pool.Request{Hops: n.hops(stubFar), Stable: stable})
}

func (n clientNetwork) internal(ctx context.Context, req pool.Request) (*leasedCircuit, error) {
	n.Wake()
	p, err := n.waitPool(ctx)
	if err != nil {
		return nil, err
	}
	req.Internal, req.Private = true, true
	lease, err := p.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	circ := lease.Circuit.(*OpenCircuit)
	return &leasedCircuit{OpenCircuit: circ, lease: lease, last: circ.path.Exit().Target}, nil
}

// stub is a kind of circuit that is ready before anybody knows where it will lead.
type stub uint8

const (
	// stubNear ends with the last vanguard, if there are full ones. A service extends it
	// to its directories and introduction points, which learn a vanguard that is there
	// for hours only.
	stubNear stub = iota
	// stubFar has one relay more after full vanguards, which hides them from a relay that
	// somebody else has chosen, and a client's from all: clients do not tell others that
	// their circuits have one origin.
	stubFar
)

// hops returns the length of a stub: see vanguards-spec, "Path construction".
func (n clientNetwork) hops(s stub) int {
	if n.cfg.Vanguards == guard.VanguardsFull && s == stubFar {
		return path.DefaultHops + 1
	}
	return path.DefaultHops
}

// To implements hsclient.Network.
func (n clientNetwork) To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (hsclient.OwnedCircuit, error) {
	return n.extended(ctx, stubFar, t, specs)
}

// extended extends a circuit of the pool by one hop.
func (n clientNetwork) extended(ctx context.Context, s stub, t linkspec.Target, specs []linkspec.Spec) (*leasedCircuit, error) {
	circ, err := n.internal(ctx, pool.Request{Hops: n.hops(s), Next: t.RSA})
	if err != nil {
		return nil, err
	}
	beginPatience(ctx) // until now it had another purpose, or none
	if err := n.extendOnion(ctx, circ.OpenCircuit, circ.last, t, specs); err != nil {
		circ.Close()
		return nil, err
	}
	circ.last = t
	return circ, nil
}

// Refused implements hsclient.Network.
func (n clientNetwork) Refused(t *linkspec.Target) error {
	exclude := &n.live.Load().Path.Exclude
	excluded := exclude.HasTarget(t)
	if d := n.dirs.Directory(); d != nil {
		if mixed(d, t) {
			return fault.New(fault.Refused, "the link specifiers name two relays")
		}
		if r, ok := d.Lookup(t.RSA); ok && !excluded {
			excluded = exclude.Has(r)
		}
	}
	if excluded {
		return fault.New(fault.Refused, "the relay is one of ExcludeNodes")
	}
	return nil
}

// mixed reports whether a target has one identity of a relay and another one of its own.
// Nobody can be reached by it, but a relay refuses at once to extend a circuit to itself or
// back, by either identity: a stranger who names such targets could learn the relays of a
// circuit, because others connect to the address that it gives.
func mixed(d *netdir.Directory, t *linkspec.Target) bool {
	if t.Ed.IsZero() {
		return false // link specifiers may lack it
	}
	byRSA, ok := d.Lookup(t.RSA)
	if ok && byRSA.HasMicrodesc() && byRSA.ID().Ed != t.Ed {
		return true
	}
	byEd, ok := d.LookupEd(t.Ed)
	return ok && byEd.RSA() != t.RSA
}

// Flow implements hsclient.Network.
func (n clientNetwork) Flow() (*flow.Params, bool) {
	o := n.hopOptions()
	return o.Flow, o.Congestion
}

// onionAddress reads the address of a service. That its key is good is looked at later,
// once for many streams, when it is blinded.
func (c *Client) onionAddress(host string) (ident.Ed25519ID, error) {
	id, err := hscrypto.ReadAddress(host)
	if err != nil {
		err = fault.New(fault.KindOf(err), "dial: %w: %w", hsclient.ErrAddress, err)
		return id, fault.Also(err, &net.DNSError{Err: "no such onion service", Name: "[scrubbed]", IsNotFound: true})
	}
	return id, nil
}

// dialOnion opens a stream to an onion service, on another circuit if the first one
// closed meanwhile.
func (c *Client) dialOnion(ctx context.Context, req Request, service ident.Ed25519ID, life *streamLife) (*Conn, error) {
	circuits, err := c.waitPool(ctx)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		lease, err := c.onion.Acquire(ctx, service, req.Key, path.LongLived(req.Port))
		if err != nil {
			return nil, err
		}
		if req.Key.Stream != 0 {
			lease.Retire() // it ends with this stream
		}
		life.sent(lease.Circuit().ID())
		s, err := c.openOnion(ctx, lease, req)
		if err == nil {
			circuits.EndRest()
			return &Conn{Stream: s, c: c, lease: lease, id: life.r.ID, circ: lease.Circuit().ID()}, nil
		}
		again := n < onionTries && mayReopen(err, lease.Circuit().Engine().Err() != nil)
		if errors.Is(err, errOnionTimeout) {
			lease.Retire() // the service may be gone: the next stream meets it again
		}
		lease.Release()
		if !again || ctx.Err() != nil {
			return nil, err
		}
	}
}

// mayReopen reports whether a stream that failed may open on another circuit: this one has
// closed, and the service had not answered before. A service that refuses a stream may close
// the circuit with it, as C tor's does for a port that it does not have.
func mayReopen(err error, closed bool) bool {
	var refused *stream.EndError
	return closed && !errors.As(err, &refused)
}

func (c *Client) openOnion(ctx context.Context, lease *hsclient.Lease, req Request) (*stream.Stream, error) {
	timeout := onionStreamTimeout
	if set := c.live.Load().StreamTimeout; set > 0 {
		timeout = set
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errOnionTimeout)
	defer cancel()
	s, err := stream.BeginOnion(lease.Hop(), lease.Host(req.Host), req.Port)
	if err != nil {
		return nil, err
	}
	return s, awaitOpen(ctx, s, req.Early)
}

var errOnionTimeout = fault.New(fault.Timeout, "the onion service did not open the stream in time")
