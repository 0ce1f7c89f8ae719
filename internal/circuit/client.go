package circuit

import (
	"context"
	"crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// clientHandler is the messages on stream 0 that a client expects.
type clientHandler struct{ c *Circuit }

func (ch clientHandler) HandleMessage(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	switch m.Cmd {
	case cell.RelayLongExtended2:
		if !h.meta.waitsFor(m.Cmd) {
			break // nothing is kept of what nobody asked for
		}
		whole, err := h.reassemble(m.Cmd, m.Data)
		if err != nil || whole == nil {
			return err
		}
		m.Data = whole
	case cell.RelayRekeyReply:
		return h.rekeyReply(m.Data)
	}
	if h.meta.take(m) {
		return nil
	}
	if m.Cmd == cell.RelayTruncated {
		t, err := cell.ParseTruncated(m.Data)
		if err != nil {
			return err
		}
		// What is left of the circuit could carry nothing that the user asked for.
		h.c.Close(cell.DestroyNone, fault.New(fault.Network, "circuit: truncated at hop %d: %v", h.index+1, t.Reason))
		return nil
	}
	return fault.New(fault.Protocol, "unexpected %v from hop %d", m.Cmd, h.index+1)
}

// Create builds the first hop of a client's circuit on ch. When it fails the
// circuit is destroyed.
func Create(ctx context.Context, env *Env, ch *channel.Channel, target linkspec.Target, opts HopOptions) (*Circuit, error) {
	hs, err := startHandshake(env, rand.Reader, target, opts)
	if err != nil {
		return nil, err
	}
	return createBy(ctx, env, ch, hs, func() {})
}

// createBy is Create with a handshake that was started. meanwhile is called
// before the answer is awaited.
func createBy(ctx context.Context, env *Env, ch *channel.Channel, hs *clientHandshake, meanwhile func()) (*Circuit, error) {
	defer hs.wipe()
	c := newCircuit(env, nil)
	c.handler = clientHandler{c}
	created := make(chan reply, 1)
	c.created = created
	home, err := ch.Open(homeSide{c}, nil)
	if err != nil {
		return nil, err
	}
	c.setHome(home)
	if err := hs.create(home); err != nil {
		c.Close(cell.DestroyNone, err)
		return nil, err
	}
	meanwhile()
	var r reply
	select {
	case r = <-created:
	case <-c.done:
		return nil, fault.New(fault.KindOf(c.Err()), "create circuit: hop 1: %w", c.Err())
	case <-ctx.Done():
		err := fault.New(fault.Timeout, "create circuit: hop 1: %w", context.Cause(ctx))
		c.Close(cell.DestroyNone, err)
		return nil, err
	}
	hop, err := hs.finishCell(c, r)
	if err != nil {
		err = fault.New(fault.KindOf(err), "create circuit: hop 1: %w", err)
		c.Close(cell.DestroyNone, err)
		return nil, err
	}
	c.addHop(hop)
	return c, nil
}

// Extend adds a hop. When it fails the circuit is destroyed: a relay that
// could not extend leaves it in a state that nobody can use.
func (c *Circuit) Extend(ctx context.Context, target linkspec.Target, opts HopOptions) error {
	hs, err := startHandshake(c.env, rand.Reader, target, opts)
	return c.extendBy(ctx, hs, err, func() {})
}

// extendBy is Extend with a handshake that was started, or could not be.
// meanwhile is called before the answer is awaited.
func (c *Circuit) extendBy(ctx context.Context, hs *clientHandshake, err error, meanwhile func()) error {
	n := len(c.Hops()) + 1
	if err == nil {
		err = c.extend(ctx, hs, meanwhile)
	}
	if err != nil {
		err = fault.New(fault.KindOf(err), "extend circuit: hop %d: %w", n, err)
		c.Close(cell.DestroyNone, err)
	}
	return err
}

func (c *Circuit) extend(ctx context.Context, hs *clientHandshake, meanwhile func()) error {
	defer hs.wipe()
	if hs.fast != nil {
		return fault.New(fault.Local, "CREATE_FAST cannot extend")
	}
	last := c.Last()
	answerCmd := cell.RelayExtended2
	if hs.pq != nil {
		answerCmd = cell.RelayLongExtended2
	}
	want, err := last.Expect(answerCmd)
	if err != nil {
		return err
	}
	m := cell.Extend2{Specs: linkspec.Append(nil, hs.target.Specs()), Type: hs.typ, Data: hs.onionskin}
	if hs.pq != nil {
		err = last.sendLong(cell.RelayLongExtend2, m.Append(nil), true)
	} else {
		err = last.SendEarly(cell.RelayExtend2, 0, m.Append(nil))
	}
	if err != nil {
		want.Cancel()
		return err
	}
	meanwhile()
	_, body, err := want.Wait(ctx)
	if err != nil {
		return err
	}
	parse := cell.ParseExtended2
	if hs.pq != nil {
		parse = cell.ParseLongExtended2
	}
	answer, err := parse(body)
	if err != nil {
		return err
	}
	hop, err := hs.finish(c, answer.Data)
	if err != nil {
		return err
	}
	c.addHop(hop)
	return nil
}

// fromHomeControl takes the cells of a circuit that are not relay cells.
func (c *Circuit) fromHomeControl(cmd cell.Command, body []byte) {
	switch cmd {
	case cell.CmdCreated2, cell.CmdCreatedFast, cell.CmdLongCreated2:
		if w := c.created; w != nil {
			c.created = nil
			w <- reply{cmd: cmd, body: append([]byte(nil), body...)}
			return
		}
	}
	c.violation(fault.New(fault.Protocol, "unexpected %v cell", cmd))
}
