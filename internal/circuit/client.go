package circuit

import (
	"context"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// Create builds the first hop of a client's circuit on ch. When it fails the
// circuit is destroyed.
func Create(ctx context.Context, env *Env, ch *channel.Channel, target linkspec.Target, opts HopOptions) (*Circuit, error) {
	hs, err := startHandshake(env, target, opts)
	if err != nil {
		return nil, err
	}
	return createBy(ctx, env, ch, hs, func() {})
}

// createBy is Create with a handshake that was started. meanwhile is called
// before the answer is awaited.
func createBy(ctx context.Context, env *Env, ch *channel.Channel, hs *clientHandshake, meanwhile func()) (*Circuit, error) {
	defer hs.wipe()
	c := newCircuit(env, fromRelay)
	c.early = clientEarly()
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
	hs.prepare(env)
	var r reply
	select {
	case r = <-created:
	case <-c.Done():
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
	hs, err := startHandshake(c.env, target, opts)
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
	form, last := hs.kind.Form, c.Last()
	if form.Extend == 0 {
		return fault.New(fault.Local, "%v has no message that extends a circuit", form.Create)
	}
	want, err := last.Expect(form.Extended)
	if err != nil {
		return err
	}
	c.Channel().NoteMultiHop()
	m := cell.Extend2{Specs: linkspec.Append(nil, hs.specs()), Type: hs.kind.Type, Data: hs.onionskin}
	if err := last.sendMeta(form.Extend, m.Append(nil), true); err != nil {
		want.Cancel()
		return err
	}
	meanwhile()
	hs.prepare(c.env)
	_, body, err := want.Wait(ctx)
	if err != nil {
		return err
	}
	answer, err := form.ParseExtended(body)
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
	if w := c.created; w != nil && cmd.IsCreated() {
		c.created = nil
		w <- reply{cmd: cmd, body: append([]byte(nil), body...)}
		return
	}
	c.violation(fault.New(fault.Protocol, "unexpected %v cell", cmd))
}
