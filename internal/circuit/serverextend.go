package circuit

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
)

// extendTimeout is how long a relay tries to reach the next one.
const extendTimeout = 30 * time.Second

// serverHandler takes a client's messages at a relay.
type serverHandler struct {
	s *Server
	c *Circuit
	// cut gives up the circuit's extend; nil before there is one. Owned by home's
	// reader.
	cut func()
}

// HandleMessage implements Handler.
func (sh *serverHandler) HandleMessage(h *Hop, m cell.RelayMsg, cmd cell.Command) error {
	switch m.Cmd {
	case cell.RelayExtend2:
		return sh.extend(h, m.Data, cmd)
	case cell.RelayLongExtend2:
		return sh.longExtend(h, m.Data, cmd)
	case cell.RelayConfluxLink:
		return sh.s.link(h, m.Data)
	case cell.RelayConfluxLinkedAck:
		return h.linkedAck()
	case cell.RelayRekeyRequest:
		return sh.rekeyRequest(h, m.Data)
	case cell.RelayRekeyConfirm:
		return sh.rekeyConfirm(h, m.Data)
	case cell.RelayTruncate:
		return sh.truncate(h)
	case cell.RelayBegin, cell.RelayBeginDir, cell.RelayResolve:
		if sh.s.cfg.Streams == nil {
			return refuseStream(h, m)
		}
		return sh.s.cfg.Streams.HandleStream(h, m)
	}
	if h.meta.take(m) {
		return nil
	}
	if !m.Cmd.Known() {
		return nil // a later version's message: C tor drops these too
	}
	return fault.New(fault.Protocol, "unexpected %v from a client", m.Cmd)
}

func refuseStream(h *Hop, m cell.RelayMsg) error {
	reason := cell.EndExitPolicy
	if m.Cmd == cell.RelayBeginDir {
		reason = cell.EndNotDirectory
	}
	e := cell.End{Reason: reason}
	return h.Send(cell.RelayEnd, m.Stream, e.Append(nil))
}

// longExtend takes a fragment of an EXTEND2 that does not fit a cell; the
// first comes in a RELAY_EARLY cell, as an EXTEND2 does.
func (sh *serverHandler) longExtend(h *Hop, fragment []byte, cmd cell.Command) error {
	if early := cmd == cell.CmdRelayEarly; early == h.long.fragments.Pending() {
		return fault.New(fault.Protocol, "LONG_EXTEND2 in a %v cell", cmd)
	}
	if err := sh.extendable(); err != nil {
		return err // before anything is kept of it
	}
	whole, err := h.reassemble(cell.RelayLongExtend2, fragment)
	if err != nil || whole == nil {
		return err
	}
	return sh.extendTo(h, whole, true)
}

// extend takes an EXTEND2.
func (sh *serverHandler) extend(h *Hop, body []byte, cmd cell.Command) error {
	if cmd != cell.CmdRelayEarly {
		return fault.New(fault.Protocol, "EXTEND2 in a %v cell", cmd)
	}
	return sh.extendTo(h, body, false)
}

// extendTo starts to open the next hop. long says that body came in fragments,
// as the post-quantum hybrid's does and no other handshake's.
func (sh *serverHandler) extendTo(h *Hop, body []byte, long bool) error {
	if err := sh.extendable(); err != nil {
		return err
	}
	parse := cell.ParseExtend2
	if long {
		parse = cell.ParseLongExtend2
	}
	m, err := parse(append([]byte(nil), body...))
	if err != nil {
		return err
	}
	t, err := sh.s.target(sh.c.Channel().Peer(), m, long)
	if err != nil {
		return err
	}
	x := &extension{s: sh.s, c: sh.c, h: h, target: t, long: long, create: cell.Create2{Type: m.Type, Data: m.Data}}
	ctx, cancel := context.WithTimeout(sh.s.ctx, extendTimeout)
	sh.cut = func() { x.cut(cancel) }
	sh.c.OnClose(func(error) { cancel() })
	sh.s.cfg.Stats.Extends.Add(1)
	sh.s.wg.Go(func() {
		defer panics.Recover(sh.c.env.Log, sh.c.broke)
		defer cancel()
		x.run(ctx)
	})
	return nil
}

// extendable refuses a second extend: a circuit has one in its life.
func (sh *serverHandler) extendable() error {
	if sh.cut != nil || sh.c.partner.Load() != nil {
		return fault.New(fault.Protocol, "EXTEND2 on a circuit that was extended already")
	}
	return nil
}

// extendCost is what an extension counts on its circuit's account, in bytes: a
// goroutine, two timers, and the longest onionskin.
const extendCost = 8 << 10

// extension is the way to the next hop, until CREATE2 has gone out.
type extension struct {
	s      *Server
	c      *Circuit
	h      *Hop
	target linkspec.Target
	create cell.Create2
	long   bool // in cells of variable length
	isCut  bool // the client sent TRUNCATE; guarded by c.mu
}

// run opens the next hop's channel and sends CREATE2 on it, or tells the client
// why not.
func (x *extension) run(ctx context.Context) {
	a := x.c.Account()
	a.Reserve(extendCost)
	defer a.Release(extendCost)
	reason, err := x.open(ctx)
	x.create = cell.Create2{} // the rest stays as long as the circuit
	if err == nil {
		return
	}
	x.s.cfg.Stats.ExtendsFailed.Add(1)
	x.c.mu.Lock()
	cut := x.isCut
	x.c.mu.Unlock()
	if !cut {
		x.c.truncated(x.h, reason)
	}
}

// open is run without what follows from an error, which reason sums up for the
// client.
func (x *extension) open(ctx context.Context) (reason cell.DestroyReason, err error) {
	ch, err := x.s.dial(ctx, x.c.Channel(), x.target)
	if err != nil {
		switch fault.KindOf(err) {
		case fault.Protocol:
			return cell.DestroyORIdentity, err
		case fault.Resource:
			return cell.DestroyResourceLimit, err
		}
		return cell.DestroyConnectFailed, err
	}
	ps := &partnerSide{c: x.c, h: x.h, s: x.s, ch: ch, want: cell.CmdCreated2}
	if x.long {
		ps.want = cell.CmdLongCreated2
	}
	p, err := ch.Open(ps, x.c.Account())
	if err != nil {
		return cell.DestroyResourceLimit, err
	}
	if !x.install(p) {
		p.Destroy(cell.DestroyNone)
		return 0, nil
	}
	if x.long {
		err = p.SendLong(cell.CmdLongCreate2, x.create.Append(nil))
	} else {
		err = p.SendControl(cell.CmdCreate2, x.create.Append(nil))
	}
	return cell.DestroyChannelClosed, err
}

// install puts the partner in place, before CREATE2 goes out: the client's next
// cell may come as soon as the answer does. It reports whether the client still
// wants it.
func (x *extension) install(p *channel.Circ) bool {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if x.c.closed || x.isCut {
		return false
	}
	x.c.partner.Store(p)
	return true
}

// cut gives the extension up, and what came of it.
func (x *extension) cut(cancel context.CancelFunc) {
	x.c.mu.Lock()
	x.isCut = true
	p := x.c.partner.Swap(nil)
	x.c.mu.Unlock()
	cancel()
	if p != nil {
		p.Destroy(cell.DestroyRequested)
	}
}

// truncated tells the client that what lies beyond this relay is gone.
func (c *Circuit) truncated(h *Hop, reason cell.DestroyReason) {
	if p := c.partner.Swap(nil); p != nil {
		p.Destroy(cell.DestroyNone) // where the next relay doesn't know yet
	}
	t := cell.Truncated{Reason: reason}
	if err := h.Send(cell.RelayTruncated, 0, t.Append(nil)); err != nil && !fault.Is(err, fault.Closed) {
		c.Close(reason, err)
	}
}

// truncate does what the client asks: cut off what lies beyond.
func (sh *serverHandler) truncate(h *Hop) error {
	if sh.cut != nil {
		sh.cut()
	}
	t := cell.Truncated{Reason: cell.DestroyRequested}
	return fault.Except(fault.Closed, h.Send(cell.RelayTruncated, 0, t.Append(nil)))
}
