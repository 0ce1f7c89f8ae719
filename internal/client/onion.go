package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
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
	// otherRelays is how many circuits are looked at for one that does not come from
	// the relay that it leads to. A vanguard that is also such a relay is behind one
	// in four.
	otherRelays = 10
)

// onionNet is the client as hsclient sees it.
type onionNet struct{ *Client }

var _ hsclient.Network = onionNet{}

func newOnion(c *Client) *hsclient.Client {
	t := c.cfg.Network.Testing
	return hsclient.New(hsclient.Config{
		Network: onionNet{c}, Log: c.log, Memory: c.memory, Keys: c.cfg.OnionKeys, Testing: t.AllowPrivateAddresses, Private: t.AllowPrivateAddresses,
		Idle: func() time.Duration { return pool.Dirtiness(c.live.Load().MaxDirtiness) },
	})
}

// Directory implements hsclient.Network.
func (n onionNet) Directory(ctx context.Context) (*netdir.Directory, error) {
	if _, err := n.waitPool(ctx); err != nil {
		return nil, err
	}
	d := n.dirs.Directory()
	if d == nil || !n.dirs.Ready(d, time.Now()) {
		return nil, fault.New(fault.Directory, "onion service: there is no usable directory yet")
	}
	return d, nil
}

// onionCirc is a circuit that one lease of the pool has for itself.
type onionCirc struct {
	*Circ
	lease *pool.Lease
	last  linkspec.Target
	once  sync.Once
}

func (o *onionCirc) Engine() *circuit.Circuit { return o.Circ.Circuit }
func (o *onionCirc) ID() uint64               { return o.Circ.id }
func (o *onionCirc) Last() linkspec.Target    { return o.last }

// Close gives the circuit back to the pool, which closes it: it was private.
func (o *onionCirc) Close() { o.once.Do(o.lease.Release) }

// Internal implements hsclient.Network.
func (n onionNet) Internal(ctx context.Context, stable bool) (hsclient.Circuit, error) {
	return n.internal(ctx, stable, nil)
}

func (n onionNet) internal(ctx context.Context, stable bool, avoid []ident.RSAID) (*onionCirc, error) {
	p, err := n.waitPool(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := p.Acquire(ctx, pool.Request{Internal: true, Private: true, Stable: stable, ExcludeExit: avoid})
	if err != nil {
		return nil, err
	}
	circ := lease.Circuit.(*Circ)
	return &onionCirc{Circ: circ, lease: lease, last: circ.path.Exit().Target}, nil
}

// To implements hsclient.Network: it extends a circuit of the pool by one hop, so
// that neither the relay nor who chose it learns a relay of this client's choice
// but the one before.
func (n onionNet) To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (hsclient.Circuit, error) {
	var circ *onionCirc
	for try := 1; ; try++ {
		var err error
		if circ, err = n.internal(ctx, false, []ident.RSAID{t.RSA}); err != nil {
			return nil, err
		}
		if !comesFrom(circ.path, t.RSA) {
			break
		}
		circ.Close()
		if try == otherRelays {
			return nil, fault.New(fault.Directory, "onion service: every circuit comes from the relay that it has to lead to")
		}
	}
	opts := n.hopOptions()
	opts.Specs = specs
	// What happens from now on is not the guard's doing: the last relay is a
	// stranger's choice.
	circ.Circ.once.Do(func() { circ.byUs = true })
	if err := circ.Extend(ctx, t, opts); err != nil {
		circ.Close()
		return nil, err
	}
	circ.last = t
	return circ, nil
}

// comesFrom reports whether a path's last hop but one is a relay. The next hop must
// not be that one: relays refuse to extend back.
func comesFrom(p *path.Path, id ident.RSAID) bool {
	n := len(p.Hops)
	return n > 1 && p.Hops[n-2].Target.RSA == id
}

// Refused implements hsclient.Network.
func (n onionNet) Refused(t *linkspec.Target) error {
	exclude := &n.live.Load().Path.Exclude
	excluded := exclude.HasTarget(t)
	if d := n.dirs.Directory(); d != nil && !excluded {
		if r, ok := d.Lookup(t.RSA); ok {
			excluded = exclude.Has(r)
		}
	}
	if excluded {
		return fault.New(fault.Refused, "the relay is one of ExcludeNodes")
	}
	return nil
}

// Flow implements hsclient.Network.
func (n onionNet) Flow() (*flow.Params, bool) {
	o := n.hopOptions()
	return o.Flow, o.Congestion
}

// onionAddress reads the address of a service, and checks that the configuration
// allows one.
func (c *Client) onionAddress(host string) (ident.Ed25519ID, error) {
	id, err := hscrypto.ParseAddress(host)
	if err != nil {
		return id, fault.New(fault.KindOf(err), "dial: %w: %w", hsclient.ErrAddress, err)
	}
	if c.cfg.PQ == circuit.PQRequireAll {
		return id, fault.New(fault.Refused, "dial: onion services have no post-quantum handshake, and the option PQ requires one at every hop")
	}
	return id, nil
}

// dialOnion opens a stream to an onion service, on another circuit if the first one
// closed meanwhile.
func (c *Client) dialOnion(ctx context.Context, req Request, service ident.Ed25519ID, id uint64) (*Conn, error) {
	if _, err := c.waitPool(ctx); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		lease, err := c.onion.Acquire(ctx, service, req.Key, path.LongLived(req.Port))
		if err != nil {
			return nil, err
		}
		s, err := c.openOnion(ctx, lease, req)
		if err == nil {
			return &Conn{Stream: s, c: c, release: lease.Release, id: id, circ: lease.Circuit.ID()}, nil
		}
		closed := lease.Circuit.Engine().Err() != nil
		if errors.Is(err, errOnionTimeout) {
			lease.Retire() // the service may be gone: the next stream meets it again
		}
		lease.Release()
		if !closed || n == onionTries || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (c *Client) openOnion(ctx context.Context, lease *hsclient.Lease, req Request) (*stream.Stream, error) {
	timeout := onionStreamTimeout
	if set := c.live.Load().StreamTimeout; set > 0 {
		timeout = set
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errOnionTimeout)
	defer cancel()
	s, err := stream.BeginOnion(lease.Hop, req.Host, req.Port)
	if err != nil {
		return nil, err
	}
	return s, open(ctx, s, req.Early)
}

var errOnionTimeout = fault.New(fault.Timeout, "the onion service did not open the stream in time")
