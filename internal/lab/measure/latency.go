package measure

import (
	"context"
	"io"
	"net"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// NewLatency summarises durations; there must be at least one.
func NewLatency(d []time.Duration) *Latency {
	s := slices.Sorted(slices.Values(d))
	// The p-th percentile is the smallest value that p % of the values do not
	// exceed (nearest rank).
	at := func(p int) float64 { return millis(s[max(0, (p*len(s)+99)/100-1)]) }
	return &Latency{Count: len(s), Min: millis(s[0]), Median: at(50), P95: at(95), P99: at(99), Max: millis(s[len(s)-1])}
}

// pinger makes round trips on one connection to an echo service.
type pinger struct {
	conn net.Conn
	took []time.Duration
}

func dialPinger(ctx context.Context, dial Dial, addr string) (*pinger, error) {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &pinger{conn: c}, nil
}

// block makes n round trips of 64 bytes, after ten that do not count, because other
// subjects had their turn before.
func (p *pinger) block(ctx context.Context, n int) error {
	buf := make([]byte, 64)
	for i := range n + 10 {
		began := time.Now()
		if err := ping(ctx, p.conn, buf); err != nil {
			return err
		}
		if i >= 10 {
			p.took = append(p.took, time.Since(began))
		}
	}
	return nil
}

// ping sends the buffer to an echo service and reads it back.
func ping(ctx context.Context, c net.Conn, buf []byte) error {
	if end, ok := ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	if _, err := c.Write(buf); err != nil {
		return fault.New(fault.Network, "echo: %w", err)
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		return fault.New(fault.Network, "echo: %w", err)
	}
	return nil
}
