package circuit

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// extendTimeout is how long a relay tries to reach the next one.
const extendTimeout = 30 * time.Second

// serverHandler takes a client's messages at a relay.
type serverHandler struct {
	s *Server
	c *Circuit
	// owned by home's reader
	extending bool
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
	if sh.extending || sh.c.partner.Load() != nil {
		return fault.New(fault.Protocol, "EXTEND2 on a circuit that was extended already")
	}
	m, err := cell.ParseExtend2(append([]byte(nil), body...))
	if err != nil {
		return err
	}
	if _, pq := handshake.PQSetOfType(uint16(m.Type)); pq != long {
		return fault.New(fault.Protocol, "EXTEND2: %v, and in fragments: %v", m.Type, long)
	}
	r := bin.NewReader("EXTEND2", m.Specs)
	t, err := linkspec.TargetOf(linkspec.Read(&r))
	if err != nil {
		return err
	}
	if sh.s.cfg.ID.Matches(t.RelayID) || t.RSA.Equal(sh.s.cfg.ID.RSA) {
		return fault.New(fault.Protocol, "EXTEND2 to this relay itself")
	}
	if from := sh.c.Channel().Peer(); !from.RSA.IsZero() && from.RSA.Equal(t.RSA) {
		return fault.New(fault.Protocol, "EXTEND2 back to the relay that the circuit came from")
	}
	if sh.s.cfg.AllowTarget != nil {
		if err := sh.s.cfg.AllowTarget(t); err != nil {
			return err
		}
	}
	sh.extending = true
	sh.s.cfg.Stats.Extends.Add(1)
	sh.s.wg.Go(func() { sh.s.connectNext(sh.c, h, t, m) })
	return nil
}

// connectNext opens the next hop's channel and sends CREATE2 on it.
func (s *Server) connectNext(c *Circuit, h *Hop, t linkspec.Target, m cell.Extend2) {
	ctx, cancel := context.WithTimeout(s.ctx, extendTimeout)
	defer cancel()
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	ch, err := s.cfg.Channels.Get(ctx, t)
	if err != nil {
		s.cfg.Stats.ExtendsFailed.Add(1)
		reason := cell.DestroyConnectFailed
		if fault.Is(err, fault.Protocol) {
			reason = cell.DestroyORIdentity
		}
		c.truncated(h, reason)
		return
	}
	ps := &partnerSide{c: c, h: h, s: s, ch: ch, want: cell.CmdCreated2}
	_, long := handshake.PQSetOfType(uint16(m.Type))
	if long {
		ps.want = cell.CmdLongCreated2
	}
	p, err := ch.Open(ps, c.Account())
	if err != nil {
		s.cfg.Stats.ExtendsFailed.Add(1)
		c.truncated(h, cell.DestroyResourceLimit)
		return
	}
	// The partner is in place before CREATE2 goes out: the client's next cell
	// may come as soon as the answer does.
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		p.Destroy(cell.DestroyNone)
		return
	}
	c.partner.Store(p)
	c.mu.Unlock()
	c2 := cell.Create2{Type: m.Type, Data: m.Data}
	if long {
		err = p.SendLong(cell.CmdLongCreate2, c2.Append(nil))
	} else {
		err = p.SendControl(cell.CmdCreate2, c2.Append(nil))
	}
	if err != nil {
		c.truncated(h, cell.DestroyChannelClosed)
	}
}

// truncated tells the client that what lies beyond this relay is gone.
func (c *Circuit) truncated(h *Hop, reason cell.DestroyReason) {
	c.partner.Store(nil)
	t := cell.Truncated{Reason: reason}
	if err := h.Send(cell.RelayTruncated, 0, t.Append(nil)); err != nil && !fault.Is(err, fault.Closed) {
		c.Close(reason, err)
	}
}

// truncate does what the client asks: cut off what lies beyond.
func (sh *serverHandler) truncate(h *Hop) error {
	if p := sh.c.partner.Swap(nil); p != nil {
		p.Destroy(cell.DestroyRequested)
	}
	t := cell.Truncated{Reason: cell.DestroyRequested}
	return h.Send(cell.RelayTruncated, 0, t.Append(nil))
}

// partnerSide receives for the partner channel, the one toward the exit.
type partnerSide struct {
	c    *Circuit
	h    *Hop
	s    *Server
	ch   *channel.Channel
	want cell.Command // the answer that is waited for
	done bool         // it came; owned by the partner's reader
}

func (ps *partnerSide) HandleCells(cells []byte) { ps.c.fromPartner(ps.ch, cells) }

func (ps *partnerSide) HandleBatchEnd() {}

func (ps *partnerSide) HandleControl(cmd cell.Command, p []byte) {
	if cmd != ps.want || ps.done {
		ps.c.violation(fault.New(fault.Protocol, "unexpected %v cell from the next relay", cmd))
		return
	}
	ps.done = true
	m, err := cell.ParseCreated2(p)
	if err != nil {
		ps.c.violation(err)
		return
	}
	e := cell.Extended2(m)
	if cmd == cell.CmdLongCreated2 {
		err = ps.h.sendLong(cell.RelayLongExtended2, e.Append(nil), false)
	} else {
		err = ps.h.Send(cell.RelayExtended2, 0, e.Append(nil))
	}
	if err != nil && !fault.Is(err, fault.Closed) {
		ps.c.violation(err)
	}
}

func (ps *partnerSide) HandleDestroy(reason cell.DestroyReason, err error) {
	if !ps.done {
		ps.s.cfg.Stats.ExtendsFailed.Add(1)
	}
	ps.c.truncated(ps.h, reason)
}

func (ps *partnerSide) HandleWritable() {}
