package circuit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
)

// extendTimeout is how long a relay tries to reach the next one.
const extendTimeout = 30 * time.Second

// serverSide is what a circuit has at a relay and not at a client.
type serverSide struct {
	s *Server
	// cut gives up the circuit's extend; nil before there is one. Owned by home's
	// reader.
	cut func()

	hs         hsRole                  // owned by home's reader
	introduced bool                    // INTRODUCE1 came; owned by home's reader
	joined     atomic.Pointer[Circuit] // the other half of a rendezvous; set once, under c.mu
	askedHSDir atomic.Bool             // see FirstHSDirRequest
}

// extend takes an EXTEND2, in a RELAY_EARLY cell.
func extend(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if cc != cell.CmdRelayEarly {
		return fault.New(fault.Protocol, "%v in a %v cell", m.Cmd, cc)
	}
	return extendBy(h, cell.FormShort, m.Data)
}

// longExtend takes a fragment of an EXTEND2 that does not fit a cell; the first
// comes in a RELAY_EARLY cell.
func longExtend(h *Hop, m cell.RelayMsg, cc cell.Command) error {
	if early := cc == cell.CmdRelayEarly; early == h.long.fragments.Pending() {
		return fault.New(fault.Protocol, "%v in a %v cell", m.Cmd, cc)
	}
	if err := h.extendable(); err != nil {
		return err // before anything is kept of it
	}
	whole, err := h.reassemble(m.Cmd, m.Data)
	if err != nil || whole == nil {
		return err
	}
	return extendBy(h, cell.FormLong, whole)
}

// extendBy starts to open the next hop.
func extendBy(h *Hop, form *cell.Form, body []byte) error {
	c, s := h.c, h.c.server.s
	if err := h.extendable(); err != nil {
		return err
	}
	m, err := form.ParseExtend(append([]byte(nil), body...))
	if err != nil {
		return err
	}
	t, err := s.target(c.Channel().Peer(), m, form)
	if err != nil {
		return err
	}
	x := &extension{s: s, c: c, h: h, target: t, form: form, create: cell.Create2{Type: m.Type, Data: m.Data}}
	s.cfg.Stats.Extends.Add(1)
	if ch := s.cfg.Channels.Find(t); ch != nil { // nothing to wait for
		c.server.cut = func() { x.cut(func() {}) }
		x.ended(x.over(ch))
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, extendTimeout)
	c.server.cut = func() { x.cut(cancel) }
	c.OnClose(func(error) { cancel() })
	s.wg.Go(func() {
		defer panics.Recover(c.env.Log, c.broke)
		defer cancel()
		x.run(ctx)
	})
	return nil
}

// extendable refuses a second extend, because a circuit has one in its life, and
// one on a circuit that is an introduction or rendezvous point, or a leg of a conflux
// set, which ends here.
func (h *Hop) extendable() error {
	if h.c.leadsOn() || h.c.server.hs != hsNone || h.set.Load() != nil {
		return fault.New(fault.Protocol, "EXTEND2 on a circuit that was extended already, of a conflux set, or that serves an onion service")
	}
	return nil
}

// leadsOn reports whether the client has asked for a hop beyond this relay.
func (c *Circuit) leadsOn() bool { return c.server.cut != nil || c.partner.Load() != nil }

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
	form   *cell.Form
	isCut  bool // the client sent TRUNCATE; guarded by c.mu
}

// run opens the next hop's channel and sends CREATE2 on it, or tells the client
// why not.
func (x *extension) run(ctx context.Context) {
	a := x.c.Account()
	a.Reserve(extendCost)
	defer a.Release(extendCost)
	x.ended(x.open(ctx))
}

// ended tells the client why the next hop could not be opened, if so.
func (x *extension) ended(reason cell.DestroyReason, err error) {
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
	return x.over(ch)
}

// over opens the circuit on a channel to the next relay. It does not block.
func (x *extension) over(ch *channel.Channel) (reason cell.DestroyReason, err error) {
	ps := &partnerSide{c: x.c, h: x.h, s: x.s, ch: ch, form: x.form}
	p, err := ch.Open(ps, x.c.Account())
	if err != nil {
		return cell.DestroyResourceLimit, err
	}
	p.From(x.c.Channel())
	if !x.install(p) {
		p.Destroy(cell.DestroyNone)
		return 0, nil
	}
	x.c.Channel().NoteMultiHop()
	ch.NoteMultiHop()
	err = sendCell(p, x.form.Create, x.form.AppendCreate(nil, &x.create))
	return cell.DestroyChannelClosed, err
}

// install puts the partner in place, before CREATE2 goes out: the client's next
// cell may come as soon as the answer does. It reports whether the client still
// wants it.
func (x *extension) install(p *channel.CircuitEnd) bool {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if x.c.closed.Load() || x.isCut {
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

// truncate takes a client's TRUNCATE: it cuts off what lies beyond this relay.
func truncate(h *Hop, _ cell.RelayMsg, _ cell.Command) error {
	if cut := h.c.server.cut; cut != nil {
		cut()
	}
	t := cell.Truncated{Reason: cell.DestroyRequested}
	return fault.Except(fault.Closed, h.Send(cell.RelayTruncated, 0, t.Append(nil)))
}

// partnerSide receives for the partner channel, the one toward the exit.
type partnerSide struct {
	c    *Circuit
	h    *Hop
	s    *Server
	ch   *channel.Channel
	form *cell.Form // of the CREATE cell that it is to answer
	done bool       // the answer came; owned by the partner's reader
}

func (ps *partnerSide) HandleCells(cells []byte) { ps.c.fromPartner(ps.ch, cells) }

func (ps *partnerSide) HandleBatchEnd() {}

func (ps *partnerSide) HandleControl(cmd cell.Command, p []byte) {
	if cmd != ps.form.Created || ps.done {
		ps.c.violation(fault.New(fault.Protocol, "unexpected %v cell from the next relay", cmd))
		return
	}
	ps.done = true
	m, err := ps.form.ParseCreated(p)
	if err != nil {
		ps.c.violation(err)
		return
	}
	e := cell.Extended2(m)
	err = ps.h.sendMeta(ps.form.Extended, e.Append(nil), false)
	if err != nil && !fault.Is(err, fault.Closed) {
		ps.c.violation(err)
	}
}

func (ps *partnerSide) HandleDestroy(reason cell.DestroyReason, err error) {
	if !ps.done {
		ps.s.cfg.Stats.ExtendsFailed.Add(1)
	}
	if broken(reason, err) {
		ps.c.broke(err)
		return
	}
	ps.c.truncated(ps.h, reason)
}

func (ps *partnerSide) HandleWritable() {}
