package circuit

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// identities are two relays' keys, made once.
var identities = sync.OnceValue(func() (out [2]*channel.RelayKeys) {
	for i := range out {
		rsaKey, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			panic(err)
		}
		id, err := cert.GenerateExpanded(rand.Reader)
		if err != nil {
			panic(err)
		}
		signing, err := cert.GenerateExpanded(rand.Reader)
		if err != nil {
			panic(err)
		}
		if out[i], err = channel.NewRelayIdentity(rsaKey, id, signing, time.Now().Add(24*time.Hour)).NewRelayKeys(rand.Reader, time.Now()); err != nil {
			panic(err)
		}
	}
	return out
})

// rig is a relay between a client's link and a link to a next relay, on virtual
// time and in memory. What the client and the next relay do is the test's.
type rig struct {
	t      *testing.T
	server *Server
	target linkspec.Target // the relay
	next   linkspec.Target

	client *channel.Channel // the client's end of its link
	home   *channel.Channel // the relay's
	onward *channel.Channel // the relay's end of the link to the next one
	beyond *channel.Channel // the next relay's

	// set before the circuits that they are for
	answer func(*nextCircuit)            // what the next relay does with a circuit
	onion  func()                        // runs in each handshake
	free   func()                        // see release
	far    bool                          // there is no link to the next relay: it takes a dial that does not end
	mute   bool                          // the relay takes CREATE cells and does not answer
	say    func(h *Hop, m cell.RelayMsg) // takes a client's messages in the relay's place

	// of links that are made from now on
	padding *channel.Padding // the accepting end's
	stats   *channel.Stats   // the other end's

	other, otherAt *Circuit        // one more circuit, at the client and at the relay
	dials          atomic.Int32    // under way
	memory         *account.Memory // the relay's
	own            *account.Memory // the client's
	idle           int64           // bytes of a link without circuits, at either

	mu       sync.Mutex     // guards what follows
	accepted []*Circuit     // by the relay
	opened   []*nextCircuit // by the relay, at the next one; and what a mute relay takes
}

// nextCircuit is a circuit at the next relay.
type nextCircuit struct {
	circ *channel.CircuitEnd
	cmd  cell.Command
}

func (n *nextCircuit) HandleCells([]byte)                      {}
func (n *nextCircuit) HandleBatchEnd()                         {}
func (n *nextCircuit) HandleControl(cell.Command, []byte)      {}
func (n *nextCircuit) HandleDestroy(cell.DestroyReason, error) {}
func (n *nextCircuit) HandleWritable()                         {}

// said is a relay's dispatcher that does what rig.say says.
func (r *rig) said(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if m.Cmd == cell.RelaySendme {
		return takeSendme(h, m, cc)
	}
	r.say(h, m)
	return nil
}

// take is a relay that does with a circuit what answer does.
func (r *rig) take(c *channel.CircuitEnd, cmd cell.Command) {
	n := &nextCircuit{circ: c, cmd: cmd}
	c.SetReceiver(n)
	r.mu.Lock()
	r.opened = append(r.opened, n)
	r.mu.Unlock()
	r.answer(n)
}

// Find implements Opener.
func (r *rig) Find(linkspec.Target) *channel.Channel {
	if r.far {
		return nil
	}
	return r.onward
}

// Get implements Opener.
func (r *rig) Get(ctx context.Context, _ linkspec.Target) (*channel.Channel, error) {
	r.dials.Add(1)
	defer r.dials.Add(-1)
	<-ctx.Done()
	return nil, fault.New(fault.Timeout, "dial: %w", context.Cause(ctx))
}

// all returns the circuits that the relay has accepted, and those that it opened at
// the next relay.
func (r *rig) all() ([]*Circuit, []*nextCircuit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, r.opened
}

// last returns the relay's end of the last circuit.
func (r *rig) last() *Circuit {
	all, _ := r.all()
	return all[len(all)-1]
}

// first returns the relay's end of the first circuit.
func (r *rig) first() *Circuit {
	all, _ := r.all()
	return all[0]
}

// atNext returns the circuits that the relay opened at the next one.
func (r *rig) atNext() []*nextCircuit {
	_, opened := r.all()
	return opened
}

// env is of virtual time.
func (r *rig) env() *Env {
	return &Env{Log: slog.New(slog.DiscardHandler), Now: time.Now, Padding: NewPaddingLimits(func() uint64 { return 0 }, new(atomic.Uint64))}
}

// onRig runs f with a rig, and checks that nothing is left when the links have
// closed: a goroutine that is makes synctest.Test fail.
func onRig(t *testing.T, f func(r *rig)) {
	t.Helper()
	keys := identities()
	proto, err := protover.Parse("Link=4-5 LinkAuth=3 Relay=2-6 FlowCtrl=1-2 Conflux=1 ChivePQ=1-3,8")
	if err != nil {
		t.Fatal(err)
	}
	onion, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		at := func(port uint16) []netip.AddrPort {
			return []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)}
		}
		r := &rig{t: t, memory: account.New(1 << 30), own: account.New(1 << 30), onion: func() {}, answer: func(*nextCircuit) {}}
		r.target = linkspec.Target{RelayID: keys[0].ID, Addrs: at(1), Ntor: onion.Public(), Proto: proto}
		r.next = linkspec.Target{RelayID: keys[1].ID, Addrs: at(2), Ntor: onion.Public(), Proto: proto}
		params := flow.DefaultParams()
		r.server = NewServer(ServerConfig{
			Env: r.env(), ID: keys[0].ID, Channels: r, PQ: []string{"1-3,8"},
			Onion: func() []*handshake.NtorKeyPair { r.onion(); return []*handshake.NtorKeyPair{onion} },
			Flow:  func() *flow.Params { return &params },
		})
		r.client, r.home = r.link(keys[0], nil, r.accept)
		r.onward, r.beyond = r.link(keys[1], keys[0], func(c *channel.CircuitEnd, cmd cell.Command, _ []byte) { r.take(c, cmd) })
		r.idle = r.own.Used()
		if r.memory.Used() != 2*r.idle {
			t.Errorf("%d bytes are counted of two links, %d of one", r.memory.Used(), r.idle)
		}
		f(r)
		for _, ch := range []*channel.Channel{r.client, r.onward, r.home, r.beyond} {
			ch.Close(fault.New(fault.Closed, "the test is over"))
			<-ch.Done()
		}
		r.server.Close()
	})
}

// accept is the relay's part of a new circuit.
func (r *rig) accept(c *channel.CircuitEnd, cmd cell.Command, p []byte) {
	if r.mute {
		r.take(c, cmd)
		return
	}
	at := r.server.accept(c, cmd, p)
	if r.say != nil {
		at.handle = r.said
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, at)
}

// link makes a link to the relay with the given keys; from is the initiator's, nil
// of a client.
func (r *rig) link(to, from *channel.RelayKeys, accept func(*channel.CircuitEnd, cell.Command, []byte)) (a, b *channel.Channel) {
	r.t.Helper()
	// The keys were made on real time, which virtual time does not follow.
	now := func() time.Time { return to.Expires.Add(-time.Hour) }
	x, y := net.Pipe()
	far := make(chan *channel.Link, 1)
	go func() {
		l, err := channel.Accept(context.Background(), y, &channel.LinkConfig{Now: now, Identity: to})
		if err != nil {
			r.t.Error(err)
		}
		far <- l
	}()
	l, err := channel.Connect(context.Background(), x, to.ID, netip.AddrPort{}, &channel.LinkConfig{Now: now, Identity: from})
	if err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	refuse := func(c *channel.CircuitEnd, _ cell.Command, _ []byte) { c.Destroy(cell.DestroyProtocol) }
	near := &channel.Config{Log: log, Now: time.Now, Accept: refuse, Stats: r.stats}
	there := &channel.Config{Log: log, Now: time.Now, Accept: accept, Padding: r.padding}
	if from == nil {
		near.Memory, there.Memory = r.own, r.memory
	} else { // what the next relay holds is not counted
		near.Memory, near.Accept = r.memory, r.accept
	}
	a, b = channel.Start(l, near), channel.Start(<-far, there)
	return a, b
}

// ignorant takes what comes back to a client, and does nothing with it except to
// call take. SENDME counts.
func ignorant(take func(h *Hop, m cell.RelayMsg)) messageHandler {
	return func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
		if m.Cmd == cell.RelaySendme {
			return takeSendme(h, m, cc)
		}
		h.meta.take(m)
		if take != nil {
			take(h, m)
		}
		return nil
	}
}

// circuit makes a client's circuit to the relay, whose messages go to take.
func (r *rig) circuit(o HopOptions, take func(h *Hop, m cell.RelayMsg)) *Circuit {
	r.t.Helper()
	return r.circuitOver(r.client, o, take)
}

// circuitOver is circuit over another link: over beyond, it has more than one hop for
// the relay.
func (r *rig) circuitOver(link *channel.Channel, o HopOptions, take func(h *Hop, m cell.RelayMsg)) *Circuit {
	r.t.Helper()
	hs, err := startHandshake(r.env(), r.target, o)
	if err != nil {
		r.t.Fatal(err)
	}
	c := newCircuit(r.env(), ignorant(take))
	created := make(chan reply, 1)
	c.created = created
	home, err := link.Open(homeSide{c}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	c.setHome(home)
	if err := hs.create(home); err != nil {
		r.t.Fatal(err)
	}
	var got reply
	select {
	case got = <-created:
	case <-c.Done():
		r.t.Fatal(c.Err())
	}
	hop, err := hs.finishCell(c, got)
	if err != nil {
		r.t.Fatal(err)
	}
	c.addHop(hop)
	synctest.Wait()
	return c
}

// extend2 returns an EXTEND2 for a target with an onionskin of any content.
func extend2(specs []linkspec.Spec, typ cell.HandshakeType, n int) []byte {
	m := cell.Extend2{Specs: linkspec.Append(nil, specs), Type: typ, Data: make([]byte, n)}
	return m.Append(nil)
}

// extend sends one.
func (r *rig) extend(c *Circuit) {
	r.t.Helper()
	if err := c.Last().SendEarly(cell.RelayExtend2, 0, extend2(r.next.Specs(), cell.HandshakeNtorV3, 100)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// longExtend sends the first n fragments of a LONG_EXTEND2; all, when n is 0.
func (r *rig) longExtend(c *Circuit, n int) {
	r.t.Helper()
	h := c.Last()
	typ := handshake.PQ768.Kind().Type
	parts, err := handshake.AppendFragments(nil, extend2(r.next.Specs(), typ, 1400), h.format.MaxData(false))
	if err != nil {
		r.t.Fatal(err)
	}
	if n == 0 {
		n = len(parts)
	}
	for i, p := range parts[:n] {
		cc := cell.CmdRelay
		if i == 0 {
			cc = cell.CmdRelayEarly
		}
		if err := h.sendCell(cc, cell.RelayLongExtend2, 0, p); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// left says what the relay still holds of circuits; empty when nothing is left.
func (r *rig) left() map[string]int {
	r.t.Helper()
	synctest.Wait()
	out := map[string]int{}
	note := func(what string, n int) {
		if n != 0 {
			out[what] = n
		}
	}
	s := r.server
	circuits, _ := r.home.Circuits()
	note("circuits of the client's link", circuits)
	circuits, _ = r.onward.Circuits()
	note("circuits of the next link", circuits)
	note("circuits counted", int(s.cfg.Stats.Circuits.Load()))
	note("conflux sets", len(s.sets.m))
	intro, waiting := s.HSPoints()
	note("introduction points", intro)
	note("cookies", waiting)
	note("links with dials", len(s.origins.links))
	note("dials", int(r.dials.Load()))
	bytes := r.memory.Used()
	for _, ch := range []*channel.Channel{r.home, r.onward} {
		if ch.Err() == nil {
			bytes -= r.idle
		}
	}
	note("bytes", int(bytes))
	for _, q := range []*onionQueue{s.skin, s.pq} {
		q.mu.Lock()
		note("jobs", q.waiting)
		q.mu.Unlock()
	}
	accepted, _ := r.all()
	for _, c := range accepted {
		if !c.over() {
			note("circuits open", 1)
		}
		if c.partner.Load() != nil && c.partner.Load().Queued() > 0 {
			note("cells", 1)
		}
		for _, h := range c.Hops() {
			for _, o := range []*overdue{&h.long.overdue, &h.rekey.overdue} {
				o.mu.Lock()
				if o.timer != nil && o.timer != tooLate {
					note("timers", 1)
				}
				o.mu.Unlock()
			}
			h.smu.Lock()
			note("streams", len(h.streams))
			h.smu.Unlock()
		}
	}
	return out
}
