package circuit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// ask is a step of the protocol in which a client waits for a relay.
type ask struct {
	opts HopOptions // of the first hop
	// do takes the step, and returns when the wait has ended. The circuit is nil of
	// a step that makes it.
	do func(ctx context.Context, r *rig, c *Circuit) error
	// say is what the relay does with the client's messages; nil: nothing.
	say func(r *rig, h *Hop, m cell.RelayMsg)
	// first says that there is no circuit before the step.
	first bool
	// two says that the step is about another circuit, too: rig.other.
	two bool
	// deaf says that no context ends the step, spares that the circuit lives when
	// one does.
	deaf, spares bool
	// wrapped says that the error is of the kind Closed, and has the cause in it.
	wrapped bool
}

// handshakes are the kinds of hop that a client may make.
var handshakes = map[string]HopOptions{
	"CREATE_FAST":      {Handshake: handshake.Fast},
	"ntor":             {Handshake: handshake.Ntor},
	"ntor-v3":          {},
	"ntor-v3 with CGO": congested,
	"pq512":            {Handshake: handshake.PQ512.Kind()},
	"pq768 with CGO":   {Handshake: handshake.PQ768.Kind(), Congestion: true, CGO: true},
	"pq1024":           {Handshake: handshake.PQ1024.Kind()},
}

// asks are the steps.
func asks() map[string]ask {
	all := map[string]ask{
		"rekey": {do: func(ctx context.Context, _ *rig, c *Circuit) error { return c.Last().Rekey(ctx, handshake.PQ768) }},
		"rekey, answered in part": {
			do:  func(ctx context.Context, _ *rig, c *Circuit) error { return c.Last().Rekey(ctx, handshake.PQ768) },
			say: func(_ *rig, h *Hop, m cell.RelayMsg) { begins(h, m, cell.RelayRekeyRequest, cell.RelayRekeyReply) },
		},
		"extend, answered in part": {
			opts: congested,
			do: func(ctx context.Context, r *rig, c *Circuit) error {
				return c.Extend(ctx, r.next, HopOptions{Handshake: handshake.PQ768.Kind()})
			},
			say: func(_ *rig, h *Hop, m cell.RelayMsg) { begins(h, m, cell.RelayLongExtend2, cell.RelayLongExtended2) },
		},
		"build": {first: true, do: func(ctx context.Context, r *rig, _ *Circuit) error {
			_, err := Build(ctx, r.env(), r.client, &Route{Targets: []linkspec.Target{r.target, r.next}})
			if at := new(*BuildError); !errors.As(err, at) || (*at).Hop != 1 {
				return fmt.Errorf("not at the first hop: %w", err)
			}
			return err
		}},
		"link two circuits": {opts: congested, two: true, do: func(ctx context.Context, r *rig, c *Circuit) error {
			return linkBoth(ctx, c, r.other)
		}},
		"link two circuits, of which one answers": {
			opts: congested,
			two:  true,
			do:   func(ctx context.Context, r *rig, c *Circuit) error { return linkBoth(ctx, r.other, c) },
			say: func(r *rig, h *Hop, m cell.RelayMsg) {
				if m.Cmd == cell.RelayConfluxLink && h.c == r.otherAt {
					_ = h.Send(cell.RelayConfluxLinked, 0, m.Data)
				}
			},
		},
		"negotiate padding": {spares: true, do: func(ctx context.Context, _ *rig, c *Circuit) error {
			want, err := c.Last().Expect(cell.RelayPaddingNegotiated)
			if err != nil {
				return err
			}
			if err := c.Last().Send(cell.RelayPaddingNegotiate, 0, make([]byte, 4)); err != nil {
				return err
			}
			_, _, err = want.Wait(ctx)
			return err
		}},
		"begin a stream":   {deaf: true, do: opens(cell.RelayBegin)},
		"begin, with CGO":  {deaf: true, opts: congested, do: opens(cell.RelayBegin)},
		"resolve a name":   {deaf: true, do: opens(cell.RelayResolve)},
		"wait for SENDME":  {deaf: true, wrapped: true, do: fills, say: swallows},
		"Vegas, no SENDME": {deaf: true, wrapped: true, opts: congested, do: fills, say: swallows},
	}
	for name, o := range handshakes {
		all["create by "+name] = ask{first: true, do: func(ctx context.Context, r *rig, _ *Circuit) error {
			_, err := Create(ctx, r.env(), r.client, r.target, o)
			return err
		}}
		if o.Handshake == handshake.Fast {
			continue
		}
		for layer, first := range map[string]HopOptions{"tor1": {}, "CGO": congested} {
			all["extend by "+name+" over "+layer] = ask{opts: first, do: func(ctx context.Context, r *rig, c *Circuit) error {
				return c.Extend(ctx, r.next, o)
			}}
		}
	}
	return all
}

// begins answers a message in fragments with the first fragment of an answer.
func begins(h *Hop, m cell.RelayMsg, to, answer cell.RelayCommand) {
	if m.Cmd != to || h.long.fragments.Pending() {
		return
	}
	parts, err := handshake.AppendFragments(nil, make([]byte, 1200), h.format.MaxData(false))
	if err != nil {
		panic(err)
	}
	_ = h.Send(answer, 0, parts[0])
	h.long.fragments.Add(time.Time{}, parts[0]) // so that the next one is not answered
}

// swallows takes a stream, whose DATA it never acknowledges.
func swallows(_ *rig, h *Hop, m cell.RelayMsg) {
	if m.Cmd == cell.RelayBegin {
		h.recv = *flow.NewReceiver(1 << 30)
		if err := h.AcceptStream(m.Stream, newSink()); err != nil {
			panic(err)
		}
	}
}

// sink is a stream's receiver that remembers how it ended.
type sink struct {
	ended chan error
	took  int
}

func newSink() *sink { return &sink{ended: make(chan error, 2)} }

func (s *sink) HandleMessage(cell.RelayMsg, time.Time) error { s.took++; return nil }
func (s *sink) Flush()                                       {}
func (s *sink) HandleCircuitClose(cause error)               { s.ended <- cause }

// open opens a stream by a message on which the relay is to act.
func open(c *Circuit, cmd cell.RelayCommand) (s *sink, id uint16, err error) {
	s = newSink()
	if err := c.Last().OpenStream(func(n uint16) StreamReceiver { id = n; return s }); err != nil {
		return nil, 0, err
	}
	return s, id, c.Last().Send(cmd, id, []byte("example.com:80\x00"))
}

// opens waits for the answer that a stream opens by.
func opens(cmd cell.RelayCommand) func(context.Context, *rig, *Circuit) error {
	return func(_ context.Context, _ *rig, c *Circuit) error {
		s, _, err := open(c, cmd)
		if err != nil {
			return err
		}
		cause := <-s.ended
		if len(s.ended) > 0 {
			return errors.New("the stream ended twice")
		}
		return cause
	}
}

// fills sends on a stream until there is no credit, and then when there is some.
func fills(_ context.Context, _ *rig, c *Circuit) error {
	_, id, err := open(c, cell.RelayBegin)
	if err != nil {
		return err
	}
	w := NewWaiter()
	for {
		n, _, err := c.Last().SendData(w, id, make([]byte, 50_000), 100)
		if err != nil {
			return err
		}
		if n == 0 {
			<-w.Wait()
		}
	}
}

// linkBoth links two circuits, and checks that both go the way of the set.
func linkBoth(ctx context.Context, a, b *Circuit) error {
	set, err := LinkConflux(ctx, []*Circuit{a, b}, cell.ConfluxHighThroughput)
	if (set == nil) != (err != nil) {
		return fmt.Errorf("a set and an error: %w", err)
	}
	for _, c := range []*Circuit{a, b} {
		if (c.Err() == nil) != (err == nil) {
			return fmt.Errorf("a leg ends by %w, linking by %w", c.Err(), err)
		}
	}
	return err
}

// An end is what comes instead of the relay's answer.
type end struct {
	of   func(r *rig, far *channel.CircuitEnd, c *Circuit, giveUp context.CancelCauseFunc)
	kind fault.Kind
	says string
	// needs says that there must be a circuit before, or a context that ends.
	circuit, context bool
	// link says that the link goes, too.
	link bool
}

// junk is a relay cell that nobody recognises.
func junk(cmd cell.Command) []byte {
	b := make([]byte, cell.Len)
	_, _ = rand.Read(b)
	cell.PutHeader(b, 0, cmd)
	return b
}

// ends are the ends that a step may come to; far is the relay's end of the circuit.
var ends = map[string]end{
	"the relay destroys the circuit": {kind: fault.Network, says: cell.DestroyHibernating.String(),
		of: func(r *rig, far *channel.CircuitEnd, c *Circuit, _ context.CancelCauseFunc) {
			if c == nil {
				far.Destroy(cell.DestroyHibernating)
			} else {
				r.last().Close(cell.DestroyHibernating, fault.New(fault.Closed, "test"))
			}
		}},
	"the link closes": {kind: fault.Network, says: "closed the connection", link: true,
		of: func(r *rig, _ *channel.CircuitEnd, _ *Circuit, _ context.CancelCauseFunc) {
			r.home.Close(fault.New(fault.Closed, "test"))
		}},
	"a cell that nobody recognises": {kind: fault.Protocol, says: "no hop recognises",
		of: func(r *rig, far *channel.CircuitEnd, _ *Circuit, _ context.CancelCauseFunc) {
			if err := far.Send(junk(cell.CmdRelay)); err != nil {
				r.t.Error(err)
			}
		}},
	"a RELAY_EARLY cell": {kind: fault.Protocol, says: "RELAY_EARLY",
		of: func(r *rig, far *channel.CircuitEnd, _ *Circuit, _ context.CancelCauseFunc) {
			if err := far.Send(junk(cell.CmdRelayEarly)); err != nil {
				r.t.Error(err)
			}
		}},
	"the caller gives up": {kind: fault.Timeout, says: "enough", context: true,
		of: func(_ *rig, _ *channel.CircuitEnd, _ *Circuit, giveUp context.CancelCauseFunc) {
			giveUp(errors.New("enough"))
		}},
	"the program closes the circuit": {kind: fault.Closed, says: "by the program", circuit: true,
		of: func(_ *rig, _ *channel.CircuitEnd, c *Circuit, _ context.CancelCauseFunc) {
			c.Close(cell.DestroyNone, fault.New(fault.Closed, "closed by the program"))
		}},
	"TRUNCATED": {kind: fault.Network, says: "truncated at hop 1: " + cell.DestroyConnectFailed.String(), circuit: true,
		of: func(r *rig, _ *channel.CircuitEnd, _ *Circuit, _ context.CancelCauseFunc) {
			t := cell.Truncated{Reason: cell.DestroyConnectFailed}
			if err := r.last().Hops()[0].Send(cell.RelayTruncated, 0, t.Append(nil)); err != nil {
				r.t.Error(err)
			}
		}},
	"a message that nobody asked for": {kind: fault.Protocol, says: "unexpected INTRODUCE_ACK", circuit: true,
		of: func(r *rig, _ *channel.CircuitEnd, _ *Circuit, _ context.CancelCauseFunc) {
			if err := r.last().Hops()[0].Send(cell.RelayIntroduceAck, 0, nil); err != nil {
				r.t.Error(err)
			}
		}},
}

// TestStepsEnd: whatever comes instead of a relay's answer, in whatever step, ends
// the wait at once with an error that says what came, closes the circuit with the
// same, and leaves nothing of it at either end. The link goes on, unless it was the
// link that closed.
func TestStepsEnd(t *testing.T) {
	byLink := func(a, b string) int { // those of the link last
		switch x, y := ends[a].link, ends[b].link; {
		case x == y:
			return strings.Compare(a, b)
		case x:
			return 1
		}
		return -1
	}
	for step, a := range asks() {
		t.Run(step, func(t *testing.T) {
			onRig(t, func(r *rig) {
				for _, ending := range slices.SortedFunc(maps.Keys(ends), byLink) {
					if e := ends[ending]; !(e.circuit && a.first || e.context && a.deaf) {
						r.ends(ending, a, e)
					}
				}
			})
		})
	}
}

// ends takes a step up to the wait, and checks what the end makes of it.
func (r *rig) ends(name string, a ask, e end) {
	t := r.t
	t.Helper()
	ctx, giveUp := context.WithCancelCause(t.Context())
	defer giveUp(nil)
	r.mute, r.other = a.first, nil
	r.say = func(h *Hop, m cell.RelayMsg) {
		if a.say != nil {
			a.say(r, h, m)
		}
	}
	var c *Circuit
	create := func() *Circuit {
		c, err := Create(ctx, r.env(), r.client, r.target, a.opts)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the relay's end is noted
		return c
	}
	if a.two {
		r.other = create()
		r.otherAt = r.last()
	}
	if !a.first {
		c = create()
	}
	began := time.Now()
	got := make(chan error, 1)
	go func() { got <- a.do(ctx, r, c) }()
	synctest.Wait()
	if len(got) > 0 {
		t.Fatalf("%s: it did not wait for the relay: %v", name, <-got)
	}
	var far *channel.CircuitEnd
	if a.first {
		far = r.atNext()[len(r.atNext())-1].circ
	} else {
		far = r.last().home.Load()
	}
	e.of(r, far, c, giveUp)
	synctest.Wait()
	if len(got) == 0 {
		if c != nil {
			c.Close(cell.DestroyNone, fault.New(fault.Closed, "the test gives up"))
		}
		giveUp(nil)
		t.Fatalf("%s: it waits on, then: %v", name, <-got)
	}
	err := <-got
	kind := e.kind
	if a.wrapped {
		kind = fault.Closed
	}
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), e.says) {
		t.Errorf("%s: %v (%v); want %q (%v)", name, err, fault.KindOf(err), e.says, kind)
	}
	if c != nil {
		// After a context's end, the circuit is of use to some steps.
		if cause := c.Err(); e.context && a.spares && cause == nil {
			c.Close(cell.DestroyNone, nil)
		} else if !fault.Is(cause, e.kind) || !strings.Contains(cause.Error(), e.says) {
			t.Errorf("%s: the circuit: %v (%v)", name, cause, fault.KindOf(cause))
		}
	}
	if r.other != nil && r.other.Err() == nil {
		t.Errorf("%s: the other leg lives", name)
	}
	if took := time.Since(began); took != 0 {
		t.Errorf("%s: it took a timer of %v", name, took)
	}
	r.nothingLeft(name, c, r.other)
}

// nothingLeft checks that neither end of the client's link holds anything of
// circuits; those of the client's are given, or nil.
func (r *rig) nothingLeft(name string, of ...*Circuit) {
	t := r.t
	t.Helper()
	if left := r.left(); len(left) > 0 {
		t.Errorf("%s: left at the relay: %v", name, left)
	}
	if n, _ := r.client.Circuits(); n != 0 {
		t.Errorf("%s: %d circuits are left on the client's link", name, n)
	}
	if held := r.own.Used(); r.client.Err() == nil && held != r.idle || r.client.Err() != nil && held != 0 {
		t.Errorf("%s: %d bytes are left on the client's account, %d of an idle link", name, held, r.idle)
	}
	for _, c := range of {
		if c == nil {
			continue
		}
		for _, h := range c.Hops() {
			if n := len(h.streams) + len(h.waiters); n > 0 || h.long.overdue.timer != tooLate {
				t.Errorf("%s: %d streams and waiters, or a timer, are left", name, n)
			}
		}
	}
}
