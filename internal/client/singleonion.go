package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// anonymity says what a client is used for: as something that nobody may find, or for
// single onion services, whose host can be found. One client is never both, because the
// direct connections of the latter would tell others whose guard the former uses.
type anonymity struct {
	is    atomic.Int32
	stays atomic.Bool // no claim is taken back
}

const (
	anonymous = 1 + iota
	findable
)

// claim decides what the client is used for, with the first call.
func (a *anonymity) claim(want int32) error {
	if a.is.Load() == want || a.is.CompareAndSwap(0, want) || a.is.Load() == want {
		return nil
	}
	if want == findable {
		return fault.New(fault.Config, "onion service: this client is in use as an anonymous one, so it cannot host a service whose host can be found; take a client of its own for that")
	}
	return fault.New(fault.Config, "this client hosts an onion service whose host can be found, so it cannot be used anonymously; take a client of its own for that")
}

// release takes a claim back of which nothing came.
func (a *anonymity) release(was int32) {
	if !a.stays.Load() {
		a.is.CompareAndSwap(was, 0)
	}
}

// NeverAnonymous keeps a client that is new for services whose host can be found: it opens no streams.
func (c *Client) NeverAnonymous() {
	c.used.stays.Store(true)
	c.used.is.CompareAndSwap(0, findable)
}

// directTimeout bounds the attempt to reach a relay in one hop, before three are tried.
const directTimeout = 10 * time.Second

// singleServiceNetwork has the circuits of a single onion service: one hop to introduction
// and rendezvous points, and three if that fails. To directories they are as those of
// other services, because relays take descriptors from no one-hop circuits.
type singleServiceNetwork struct{ serviceNetwork }

// Build makes a circuit to a new introduction point.
func (s singleServiceNetwork) Build(ctx context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	c := s.c
	d := c.dirs.Directory()
	now := time.Now()
	if d == nil || !c.dirs.Ready(d, now) {
		return nil, 0, fault.New(fault.Directory, "onion service: there is no usable directory yet")
	}
	t, err := s.point(d, spec, now)
	if err != nil {
		return nil, 0, err
	}
	return s.reach(ctx, t, nil)
}

// point chooses an introduction point, which comes after the vanguards and is none.
func (s singleServiceNetwork) point(d *netdir.Directory, spec path.Spec, now time.Time) (linkspec.Target, error) {
	spec.Hops = clientNetwork{s.c}.hops(stubFar)
	p, err := s.c.choosePath(d, &spec, now)
	if err != nil {
		return linkspec.Target{}, err
	}
	if p.Guard != nil {
		p.Guard.Cancelled(now)
	}
	return p.Exit().Target, nil
}

// To reaches a relay: a directory over a stub, as others do, and a rendezvous point or a
// known introduction point in one hop.
func (s singleServiceNetwork) To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if err := (clientNetwork{s.c}).Refused(&t); err != nil {
		return nil, 0, err
	}
	return s.reach(ctx, t, specs)
}

// ToDirectory implements hsservice.Network.
func (s singleServiceNetwork) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return s.serviceNetwork.To(ctx, t, nil)
}

// reach makes one hop, and three if that fails.
func (s singleServiceNetwork) reach(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	one, err := s.direct(ctx, s.c.dirs.Directory(), t)
	if err == nil {
		return one.Circuit, one.id, nil
	}
	if ctx.Err() != nil {
		return nil, 0, err
	}
	s.c.log.Debug("a relay cannot be reached in one hop; three are tried", "relay", t.RSA, "err", err)
	two, err := s.c.buildCircuit(ctx, pool.Spec{Spec: path.Spec{Hops: path.DefaultHops - 1, Next: t.RSA}})
	if err != nil {
		return nil, 0, err
	}
	if err := (clientNetwork{s.c}).extendOnion(ctx, two, two.path.Exit().Target, t, specs); err != nil {
		two.Close()
		return nil, 0, err
	}
	return two.Circuit, two.id, nil
}

// direct makes a circuit of one hop. A stranger may have chosen the relay, and must not
// choose to which addresses this host connects: the relay's are those of the consensus.
func (s singleServiceNetwork) direct(ctx context.Context, d *netdir.Directory, t linkspec.Target) (*OpenCircuit, error) {
	c := s.c
	r, err := listed(d, t)
	if err != nil {
		return nil, err
	}
	t.Addrs = r.Target().Addrs
	c.assume(&t)
	protect, err := clientNetwork{c}.onlyHop(&t, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, directTimeout, errDirectTimeout)
	defer cancel()
	if t, err = c.live.Load().Path.Reachable.Target(t); err != nil {
		return nil, err
	}
	ch, err := c.chans.Get(ctx, t)
	if err != nil {
		return nil, err
	}
	engine, err := circuit.Build(ctx, c.env, ch, &circuit.Route{
		Targets: []linkspec.Target{t}, Options: c.hopOptions(), Protect: protect, Strict: c.cfg.PQ.Strict(),
	})
	if err != nil {
		return nil, err
	}
	circ := &OpenCircuit{Circuit: engine, id: c.ids.Add(1), client: c, path: &path.Path{Hops: []path.Hop{{Target: t, Relay: r}}}}
	circ.life = c.begin(circ.id, circ.path, ForOnions, false, nil)
	circ.life.closes(circ, engine, circ.Close)
	circ.life.built()
	c.circs.add(circ)
	c.cfg.Hooks.circuit(CircuitInfo{ID: circ.id, State: Open, Purpose: ForOnions, Hops: 1, Protection: circ.Protection(), Path: circ.Relays(), Names: circ.names()})
	engine.OnClose(circ.ended) // last: the hook hears of the end after the beginning
	return circ, nil
}

var errDirectTimeout = fault.New(fault.Timeout, "the relay could not be reached in one hop in time")

// listed returns the relay that has both identities of a target.
func listed(d *netdir.Directory, t linkspec.Target) (netdir.Relay, error) {
	if d != nil {
		if r, ok := d.Lookup(t.RSA); ok && r.HasMicrodesc() && r.ID().Ed == t.Ed {
			return r, nil
		}
	}
	return netdir.Relay{}, fault.New(fault.Refused, "the consensus does not list the relay, so this host does not connect to it")
}

var _ hsservice.Network = singleServiceNetwork{}
