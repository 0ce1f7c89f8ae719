package ftebench

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// pingTime bounds one round trip. A pair that needs more time counts as failed.
const pingTime = 20 * time.Second

// pings returns the median and the 95th percentile of round trips of 64 bytes,
// in milliseconds.
func (b *backend) pings(ctx context.Context, dial dialer, n int) (p50, p95 float64, err error) {
	c, err := open(ctx, dial, askEcho)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var all []time.Duration
	msg := make([]byte, 64)
	for i := range n + n/10 + 1 {
		c.SetDeadline(time.Now().Add(pingTime))
		began := time.Now()
		if _, err := c.Write(msg); err != nil {
			return 0, 0, fault.New(fault.Network, "round trip: %w", err)
		}
		if _, err := io.ReadFull(c, msg); err != nil {
			return 0, 0, fault.New(fault.Network, "round trip: %w", err)
		}
		if i > n/10 { // the first ones set things up
			all = append(all, time.Since(began))
		}
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return ms(all[len(all)/2]), ms(all[len(all)*95/100]), nil
}

// expansionBytes is how many bytes are sent to measure expansion.
const expansionBytes = 4 << 20

// expansion returns how many bytes pass the counter for each payload byte, up and
// down.
func (b *backend) expansion(ctx context.Context, dial dialer, count *counter) (up, down float64, err error) {
	for _, ask := range []byte{askSink, askEcho} {
		c, err := open(ctx, dial, ask)
		if err != nil {
			return 0, 0, err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(6 * pingTime))
		upBefore, downBefore := count.up.Load(), count.down.Load()
		sunk := b.sunk.Load()
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, expansionBytes))
			wrote <- err
		}()
		if ask == askEcho {
			if _, err := io.CopyN(io.Discard, c, expansionBytes); err != nil {
				return 0, 0, errors.Join(fault.New(fault.Network, "measuring expansion: %w", err), <-wrote)
			}
		}
		if err := <-wrote; err != nil {
			return 0, 0, fault.New(fault.Network, "measuring expansion: %w", err)
		}
		for late := time.Now().Add(6 * pingTime); ask == askSink && b.sunk.Load() < sunk+expansionBytes; {
			if time.Now().After(late) {
				return 0, 0, fault.New(fault.Timeout, "measuring expansion: what was sent does not arrive")
			}
			if err := wait(ctx, 5*time.Millisecond); err != nil {
				return 0, 0, err
			}
		}
		if ask == askSink {
			up = float64(count.up.Load()-upBefore) / expansionBytes
		} else {
			down = float64(count.down.Load()-downBefore) / expansionBytes
		}
	}
	return up, down, nil
}
