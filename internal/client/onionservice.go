package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// Listen starts an onion service on this client's circuits. It ends with the client.
func (c *Client) Listen(cfg hsservice.Config) (*hsservice.Service, error) {
	return c.services.begin(c.ctx, &cfg, func(first bool) (*hsservice.Service, error) { return c.host(&cfg, first) })
}

// host is Listen's part while no other service begins. first says that no single onion service
// has begun before.
func (c *Client) host(cfg *hsservice.Config, first bool) (*hsservice.Service, error) {
	cfg.Network, cfg.Log, cfg.Memory, cfg.PQ, cfg.CGO = serviceNetwork{c}, c.log, c.memory, c.cfg.onionPQ(), c.cfg.CGO != Off
	if cfg.Name != "" {
		cfg.Log = c.log.With("service", cfg.Name)
	}
	claim := int32(anonymous)
	if cfg.Single {
		if c.bridge != nil {
			return nil, fault.New(fault.Config, "onion service: a host that can be found connects to relays itself, and the client has bridges")
		}
		claim = findable
		cfg.Network = singleServiceNetwork{serviceNetwork{c}}
	}
	if err := c.used.claim(claim); err != nil {
		return nil, err
	}
	cfg.Outbound, cfg.Tell = c.cfg.Outbound.Rest, c.tellOnion
	if !c.cfg.Fast && !cfg.Single {
		cfg.Spare = c.spare
	}
	if !c.cfg.Fast && !c.cfg.Prompt {
		cfg.Second = c.seconds.wait
	}
	if !c.cfg.Fast {
		cfg.Rest = func(circ *circuit.Circuit, closeIt func()) { c.served.keep(circ, closeIt) }
		cfg.Limit = c.limit
	}
	s, err := hsservice.New(*cfg)
	if err != nil {
		if cfg.Single && first {
			c.used.release(findable) // nothing was done under it
		}
		return nil, err
	}
	if cfg.Single {
		c.log.Warn("this onion service is NOT ANONYMOUS: the relays that it uses, and others through them, learn this host's address")
	}
	c.wg.Go(panics.Contain(c.log, nil, func() {
		select {
		case <-s.Done():
		case <-c.ctx.Done():
		}
		s.Close()
		c.services.forget(cfg.Key.ID(), s)
		if cfg.Ended == nil {
			return
		}
		if err := cfg.Ended(); err != nil {
			cfg.Log.Warn("the end of an onion service", "err", err)
		}
	}))
	return s, nil
}

// serviceNetwork implements hsservice.Circuits.
type serviceNetwork struct{ c *Client }

func (s serviceNetwork) Directory() (*netdir.Directory, <-chan struct{}) {
	changed := s.c.dirs.Changed()
	d := s.c.dirs.Directory()
	select {
	case <-s.c.poolReady: // there is enough to build circuits
	default:
		return nil, s.c.poolReady
	}
	if s.c.cfg.Fast || s.c.cfg.Prompt {
		return d, changed
	}
	select {
	case <-s.c.firstCirc: // C tor's waits until any circuit is there (have_completed_a_circuit)
		return d, changed
	default:
		return nil, s.c.firstCirc
	}
}

// spare has the pool keep a circuit that a service has built, and does not need: as C tor's, it stays until it is as old as those
// that are built ahead.
func (c *Client) spare(circ *circuit.Circuit, began time.Time) {
	p := c.pool.Load()
	if p == nil {
		circ.Close(cell.DestroyNone, hsservice.ErrDone)
		return
	}
	p.Rest(spareCircuit{circ}, began)
}

// spareCircuit is a circuit that nobody uses, as the pool sees it.
type spareCircuit struct{ *circuit.Circuit }

func (s spareCircuit) Exit() ident.RSAID           { return ident.RSAID{} }
func (s spareCircuit) Allows(path.Dest) bool       { return false }
func (s spareCircuit) Leads(int, ident.RSAID) bool { return false }
func (s spareCircuit) Stable() bool                { return true } // services ask for no other
func (s spareCircuit) Steered() bool               { return false }
func (s spareCircuit) Legs() int                   { return 1 }
func (s spareCircuit) Close()                      { s.Circuit.Close(cell.DestroyNone, hsservice.ErrDone) }

// Build builds a circuit for a service: the pool, which lends circuits to streams,
// never sees it.
func (s serviceNetwork) Build(ctx context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	circ, err := around(ctx, spec, func(ctx context.Context, spec path.Spec) (*OpenCircuit, error) {
		return s.c.inTime(ctx, func() (*OpenCircuit, error) { return s.c.buildPatiently(ctx, pool.Spec{Spec: spec}) })
	})
	if err != nil {
		return nil, 0, err
	}
	s.c.noteFirstCircuit()
	return circ.Circuit, circ.id, nil
}

// aroundTries is how many circuits are begun for one that a service needs. A service counts
// what it needs, and must not use up its budget while a few relays are down that the
// consensus still lists: they may be vanguards, which come again and again.
const aroundTries = 3

// around builds a circuit, and avoids the relays at which the ones before failed.
func around(ctx context.Context, spec path.Spec, build func(context.Context, path.Spec) (*OpenCircuit, error)) (*OpenCircuit, error) {
	for try := 1; ; try++ {
		circ, err := build(ctx, spec)
		var at *pool.HopError
		if err == nil || try == aroundTries || ctx.Err() != nil || !errors.As(err, &at) {
			return circ, err
		}
		spec.Exclude = append(slices.Clip(spec.Exclude), at.Relay)
	}
}

// To extends a circuit of the pool, which then belongs to the service alone. A relay
// that the user excludes is refused: clients and the ring of directories choose others.
// A client that names a rendezvous point gives its link specifiers.
func (s serviceNetwork) To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if err := (clientNetwork{s.c}).Refused(&t); err != nil {
		return nil, 0, err
	}
	kind := stubNear
	if specs != nil {
		kind = stubFar
	}
	c, err := clientNetwork{s.c}.extended(ctx, kind, t, specs)
	if err != nil {
		return nil, 0, err
	}
	return c.Engine(), c.ID(), nil
}

// Met implements hsservice.Network.
func (s serviceNetwork) Met() {
	if p := s.c.pool.Load(); p != nil {
		p.EndRest()
	}
}

// Refused reports a relay that the user excludes.
func (s serviceNetwork) Refused(t *linkspec.Target) error { return clientNetwork{s.c}.Refused(t) }

// ToDirectory implements hsservice.Network.
func (s serviceNetwork) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return s.To(ctx, t, nil)
}

func (s serviceNetwork) Flow() (*flow.Params, bool) {
	o := s.c.hopOptions()
	return o.Flow, o.Congestion
}

func (s serviceNetwork) Knows(t *linkspec.Target) bool {
	d := s.c.dirs.Directory()
	return d != nil && d.Knows(t)
}

func (s serviceNetwork) Testing() bool { return s.c.cfg.Network.Testing.AllowPrivateAddresses }
