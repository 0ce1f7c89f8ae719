package benchcirc

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
)

// client builds the circuits of the measurement.
type client struct {
	plan    *Plan
	kind    *handshake.Kind
	network *netdir.Network
	relays  []*relay      // own ones, in the order of paths; nil on a network
	path    []ident.RSAID // of a Builder; nil: as clients choose
	env     *circuit.Env
	chans   *channel.Manager
	dir     *netdir.Directory // nil when it is fetched for each circuit
	params  flow.Params
}

// circuitTimeout bounds one circuit, its directory included.
const circuitTimeout = 30 * time.Second

var errOver = fault.New(fault.Closed, "the measurement of this circuit is over")

func newClient(ctx context.Context, p *Plan, network *netdir.Network, relays []*relay, path []ident.RSAID, dial func(context.Context, netip.AddrPort) (net.Conn, error)) (*client, error) {
	log := slog.New(slog.DiscardHandler)
	c := &client{plan: p, network: network, relays: relays, path: path, env: &circuit.Env{Log: log, Now: time.Now}, params: flow.DefaultParams()}
	var err error
	if c.kind, err = p.kind(); err != nil {
		return nil, err
	}
	cfg := &channel.Config{Log: log, Now: time.Now, Stats: new(channel.Stats)}
	c.chans = channel.NewManager(cfg, &channel.LinkConfig{Log: log}, dial)
	first, err := c.fetch(ctx)
	if err != nil {
		c.chans.Close()
		return nil, err
	}
	c.params = flow.ParamsFrom(first.Param)
	if !p.Cold {
		c.dir = first
	}
	return c, nil
}

func (c *client) close() { c.chans.Close() }

// fetch gets the directory and verifies it, without any earlier documents.
func (c *client) fetch(ctx context.Context) (*netdir.Directory, error) {
	d := dirclient.New(dirclient.Config{Network: c.network, Dialer: c})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	dir, err := d.Wait(ctx)
	cancel()
	<-ended // cancelled: err is the error that matters
	return dir, err
}

// OpenDir implements dirclient.Dialer with a circuit of one hop.
func (c *client) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	var targets []linkspec.Target
	for _, f := range c.network.Fallbacks {
		targets = append(targets, linkspec.Target{RelayID: ident.RelayID{RSA: f.RSA, Ed: f.Ed}, Addrs: f.ORPorts})
	}
	if len(targets) == 0 {
		for _, a := range c.network.Authorities {
			if len(a.ORPorts) > 0 {
				targets = append(targets, linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts})
			}
		}
	}
	if len(targets) == 0 {
		return dirclient.Stream{}, fault.New(fault.Config, "the network names no fallback directory, and no authority with an ORPort")
	}
	t := targets[q.Attempt%len(targets)]
	ch, err := c.chans.Get(ctx, t)
	if err != nil {
		return dirclient.Stream{}, err
	}
	circ, err := circuit.Create(ctx, c.env, ch, t, circuit.HopOptions{Handshake: handshake.Fast, Flow: &c.params})
	if err != nil {
		return dirclient.Stream{}, err
	}
	s, err := stream.BeginDir(circ.Last())
	if err != nil {
		circ.Close(cell.DestroyNone, err)
		return dirclient.Stream{}, err
	}
	return dirclient.Stream{ReadWriteCloser: dirStream{s, circ}, Cache: t.RelayID}, nil
}

// ReportDir implements dirclient.Dialer.
func (c *client) ReportDir(ident.RelayID, dirclient.Purpose, error) {}

// dirStream closes its circuit when it is closed.
type dirStream struct {
	io.ReadWriteCloser
	circ *circuit.Circuit
}

func (s dirStream) Close() error {
	err := s.ReadWriteCloser.Close()
	s.circ.Close(cell.DestroyNone, errOver)
	return err
}

// choose returns the path's relays.
func (c *client) choose(d *netdir.Directory, hops int) ([]linkspec.Target, error) {
	if c.path != nil {
		return lookUp(d, c.path[:hops])
	}
	if c.relays == nil {
		spec := &path.Spec{Hops: hops}
		if c.kind.Set.Valid() {
			spec.NeedAll = []path.Capability{path.PostQuantum(c.kind.Set)}
		}
		cfg := path.Config{SameSubnet: !c.network.Testing.EnforceDistinctSubnets}
		p, err := cfg.Choose(d, nil, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), spec, time.Now())
		if err != nil {
			return nil, err
		}
		return p.Targets(), nil
	}
	ids := make([]ident.RSAID, hops)
	for i := range ids {
		ids[i] = c.relays[i].RSA
	}
	return lookUp(d, ids)
}

// lookUp returns the relays of a path.
func lookUp(d *netdir.Directory, ids []ident.RSAID) ([]linkspec.Target, error) {
	out := make([]linkspec.Target, len(ids))
	for i, id := range ids {
		r, ok := d.Lookup(id)
		if !ok || !r.HasMicrodesc() {
			return nil, fault.New(fault.Directory, "relay %d is not in the directory", i+1)
		}
		out[i] = r.Target()
	}
	return out, nil
}

// protect says how each hop is protected.
func (c *client) protect(targets []linkspec.Target) ([]circuit.Protection, error) {
	if !c.kind.Set.Valid() {
		return nil, nil
	}
	plan, err := circuit.PQRequireAll.Plan(c.kind.Set, targets)
	if c.plan.Carriage == "B" {
		for i := range plan {
			plan[i].Carriage = handshake.CarriageB
		}
	}
	return plan, err
}

// build builds one circuit, measures it from before the directory until the last
// hop is complete, and closes it.
func (c *client) build(ctx context.Context, hops int) (Sample, []circuit.Protection, error) {
	circ, s, how, err := c.open(ctx, hops)
	if err == nil {
		circ.Close(cell.DestroyNone, errOver)
	}
	return s, how, err
}

// open is build for a caller who closes the circuit.
func (c *client) open(ctx context.Context, hops int) (circ *circuit.Circuit, s Sample, how []circuit.Protection, err error) {
	ctx, cancel := context.WithTimeout(ctx, circuitTimeout)
	defer cancel()
	clock := newClock(c.relays)
	d := c.dir
	if d == nil {
		if d, err = c.fetch(ctx); err != nil {
			return nil, s, nil, err
		}
	}
	targets, err := c.choose(d, hops)
	if err != nil {
		return nil, s, nil, err
	}
	if how, err = c.protect(targets); err != nil {
		return nil, s, nil, err
	}
	s.Directory = clock.stage()
	ch, err := c.chans.Get(ctx, targets[0])
	if err != nil {
		return nil, s, nil, err
	}
	opts := circuit.HopOptions{Congestion: true, Flow: &c.params}
	if !c.kind.Set.Valid() {
		opts.Handshake = c.kind // what protects the hops decides otherwise
	}
	circ, err = circuit.Build(ctx, c.env, ch, &circuit.Route{
		Targets: targets, Options: opts, Protect: how, Strict: true,
		Built: func(int) { s.Hops = append(s.Hops, clock.stage()) },
	})
	if err != nil {
		return nil, s, nil, err
	}
	for i, h := range circ.Hops() {
		s.Hops[i].Crypto, s.Hops[i].Ahead = micros(h.HandshakeTime()), micros(h.HandshakeAhead())
		if got := h.Protection(); c.kind.Set.Valid() && got != how[i] {
			err = fault.New(fault.Local, "hop %d is protected by %v, not %v", i+1, got, how[i])
		}
	}
	s.Total = s.Directory.Wall
	for _, h := range s.Hops {
		s.Total += h.Wall
	}
	if err != nil {
		circ.Close(cell.DestroyNone, errOver)
		return nil, s, nil, err
	}
	return circ, s, how, nil
}

// clock divides time and processor time into stages.
type clock struct {
	relays []*relay
	at     time.Time
	self   time.Duration
	others []time.Duration
}

func newClock(relays []*relay) *clock {
	k := &clock{relays: relays, others: make([]time.Duration, len(relays))}
	k.read()
	k.at = time.Now()
	return k
}

func (k *clock) read() {
	k.self, _ = proc.CPU(os.Getpid())
	for i, r := range k.relays {
		k.others[i], _ = r.cpu()
	}
}

// stage ends a stage. The time to read the clocks belongs to no stage.
func (k *clock) stage() Stage {
	now := time.Now()
	was := clock{self: k.self, others: append([]time.Duration(nil), k.others...)}
	wall := now.Sub(k.at)
	k.read()
	st := Stage{Wall: micros(wall), ClientCPU: micros(k.self - was.self)}
	for i := range k.others {
		st.RelayCPU = append(st.RelayCPU, micros(k.others[i]-was.others[i]))
	}
	k.at = time.Now()
	return st
}

func micros(d time.Duration) float64 { return float64(d) / 1000 }
