package hostile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// clientWorld has a client that builds circuits through hostile relays: as guards,
// and as exits after an honest guard. The program also says what the client does;
// that runs in parallel with the program.
type clientWorld struct {
	t     *testing.T
	net   *simnet.Network
	good  *simnet.Relay
	bad   [2]*relaySide
	user  *honest
	under sync.WaitGroup // the client's work
	env   *circuit.Env

	circs   [4]*clientCircuit
	streams [4]*clientStream
	all     []*clientStream // all streams, also those that left their slots
}

// clientCircuit is a circuit of the client's, or one that is being built.
type clientCircuit struct {
	cancel context.CancelFunc
	ctx    context.Context

	mu   sync.Mutex // guards what follows
	circ *circuit.Circuit
}

// get returns the circuit, or nil until it is built.
func (c *clientCircuit) get() *circuit.Circuit {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.circ
}

// clientStream is a stream of the client's, or one that is being opened.
type clientStream struct {
	// turns makes goroutines that do the same wait for each other. Otherwise they
	// would wait for a mutex of the stream, which looks like work in a bubble of
	// virtual time.
	turns [3]chan struct{}

	mu sync.Mutex // guards what follows
	s  *stream.Stream
}

// What a client does with a stream.
const (
	toRead = iota
	toWrite
	toClose
)

func newClientStream() *clientStream {
	s := new(clientStream)
	for i := range s.turns {
		s.turns[i] = make(chan struct{}, 1)
	}
	return s
}

func (s *clientStream) get() *stream.Stream {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func newClientWorld(t *testing.T) *clientWorld {
	w := &clientWorld{t: t, net: simnet.NewNetwork(), env: &circuit.Env{Log: silent, Now: now, Padding: circuit.NewPaddingLimits(func() uint64 { return 0 }, new(atomic.Uint64))}}
	w.good = simnet.New(t, simnet.Options{Network: w.net, Addr: address(nodeGood), Keys: nodeKeys[nodeGood]})
	for i := range w.bad {
		node := nodeHostile + i
		w.bad[i] = newRelaySide(t, w.net, nodeKeys[node], targetOf(node))
	}
	w.user = newHonest(t, w.net, w.good.Target)
	return w
}

// path returns the relays that an argument selects.
func path(b byte) (out []linkspec.Target) {
	for _, node := range pick([][]int{
		{nodeHostile}, {nodeGood, nodeHostile}, {nodeHostile, nodeGood}, {nodeGood, nodeHostile2}, {nodeHostile, nodeHostile2}, {nodeHostile2}, {nodeHostile2, nodeHostile}, {nodeGood, nodeHostile, nodeHostile2},
	}, b) {
		out = append(out, targetOf(node))
	}
	return out
}

// Options of the client's circuits besides optCC and optCGO, one bit each.
const (
	buildPQ     = 1 << (iota + 2) // carriage A, if possible
	buildRekey                    // carriage B
	buildFast                     // CREATE_FAST for the first hop
	buildNtor                     // no ntor-v3
	buildStrict                   // each hop is rekeyed before the next
)

// build begins to build a circuit.
func (w *clientWorld) build(slot byte, targets []linkspec.Target, opts byte) {
	i := int(slot) % len(w.circs)
	if old := w.circs[i]; old != nil {
		w.give(old)
	}
	c := &clientCircuit{}
	c.ctx, c.cancel = context.WithTimeout(context.Background(), patience/2)
	w.circs[i] = c
	r := &circuit.Route{
		Targets: targets,
		Options: circuit.HopOptions{Congestion: opts&optCC != 0, CGO: opts&optCGO != 0},
		Strict:  opts&buildStrict != 0,
	}
	switch {
	case opts&buildFast != 0:
		r.Options.Handshake = handshake.Fast
	case opts&buildNtor != 0:
		r.Options.Handshake = handshake.Ntor
	}
	for range targets {
		switch {
		case opts&buildPQ != 0:
			r.Protect = append(r.Protect, circuit.Protection{Set: handshake.PQ768, Carriage: handshake.CarriageA})
		case opts&buildRekey != 0:
			r.Protect = append(r.Protect, circuit.Protection{Set: handshake.PQ768, Carriage: handshake.CarriageB})
		}
	}
	w.under.Go(func() {
		ch, err := w.user.channels.Get(c.ctx, targets[0])
		if err != nil {
			return // a hostile relay need not answer
		}
		circ, err := circuit.Build(c.ctx, w.env, ch, r)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.circ = circ
		c.mu.Unlock()
	})
}

// give closes a circuit.
func (w *clientWorld) give(c *clientCircuit) {
	c.cancel()
	if circ := c.get(); circ != nil {
		circ.Close(cell.DestroyNone, fault.New(fault.Closed, "the client is done"))
	}
}

func (w *clientWorld) circ(a byte) *clientCircuit { return w.circs[int(a)%len(w.circs)] }

// relayOf returns the hostile relay that an argument selects: 0x10 is the relay. The
// lowest bits select its circuit, counted from the latest.
func (w *clientWorld) relayOf(a byte) *relaySide { return w.bad[a>>4&1] }
func (w *clientWorld) endOf(a byte) *end         { return w.relayOf(a).end(a & 3) }

func (w *clientWorld) settle() {
	for _, r := range w.bad {
		r.flush()
	}
}

func (w *clientWorld) finish() {
	later(0)
	w.user.echo("during the attack")
	for _, r := range w.bad {
		r.close()
	}
	later(patience)
	w.user.echo("after the attack")
	var last []*circuit.Circuit
	for _, c := range w.circs {
		if circ := c.get(); circ != nil {
			last = append(last, circ)
			if circ.Err() == nil && leads(circ) {
				w.t.Error("a circuit is open that leads nowhere")
			}
		}
	}
	for _, c := range w.circs {
		if c != nil {
			w.give(c)
		}
	}
	w.under.Wait()
	for _, s := range w.all { // as users do in the end
		if s := s.get(); s != nil {
			_ = s.Close()
		}
	}
	later(0)
	for _, c := range last {
		for _, h := range c.Hops() {
			if n := h.Streams(); n > 0 {
				w.t.Errorf("%d streams are left on a closed circuit", n)
			}
		}
	}
	for _, ch := range w.user.channels.Channels() {
		if n, _ := ch.Circuits(); n > 1 || n > 0 && ch != w.user.circ.Channel() {
			w.t.Errorf("%d circuits are left on a link", n)
		}
	}
	w.user.close()
	later(0)
	if n := w.good.Circuits.Circuits.Load(); n > 0 {
		w.t.Errorf("%d circuits are left at the honest relay", n)
	}
	w.good.Stop()
}

// leads reports whether a circuit has a hop at a hostile relay. All of these are
// closed by now.
func leads(c *circuit.Circuit) bool {
	for _, h := range c.Hops() {
		if h.Info().Target.RelayID != targetOf(nodeGood).RelayID {
			return true
		}
	}
	return false
}

// deal runs a client's work on a circuit, in parallel with the program.
func (w *clientWorld) deal(a byte, f func(ctx context.Context, c *circuit.Circuit)) {
	slot := w.circ(a)
	c := slot.get()
	if c == nil {
		return
	}
	w.under.Go(func() { f(slot.ctx, c) })
}
