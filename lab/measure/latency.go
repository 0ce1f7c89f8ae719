package measure

import (
	"context"
	"io"
	"net"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// NewLatency summarises durations; it wants one at least.
func NewLatency(d []time.Duration) *Latency {
	s := slices.Sorted(slices.Values(d))
	// The p-th percentile is the smallest value that p % of the values do not
	// exceed (nearest rank).
	at := func(p int) float64 { return millis(s[max(0, (p*len(s)+99)/100-1)]) }
	return &Latency{Count: len(s), Min: millis(s[0]), Median: at(50), P95: at(95), P99: at(99), Max: millis(s[len(s)-1])}
}

// connects opens and closes n connections, one after the other, after one that
// does not count: it may have to build a circuit.
func connects(ctx context.Context, dial Dial, addr string, n int) (*Latency, error) {
	var took []time.Duration
	for i := range n + 1 {
		began := time.Now()
		c, err := dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		d := time.Since(began)
		// A client that answers before the far end did is found out by a byte.
		if err := ping(ctx, c, make([]byte, 1)); err != nil {
			c.Close()
			return nil, err
		}
		c.Close()
		if i > 0 {
			took = append(took, d)
		}
	}
	return NewLatency(took), nil
}

// pings sends 64 bytes to and fro n times on one connection, after ten that do
// not count.
func pings(ctx context.Context, dial Dial, addr string, n int) (*Latency, error) {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	buf := make([]byte, 64)
	var took []time.Duration
	for i := range n + 10 {
		began := time.Now()
		if err := ping(ctx, c, buf); err != nil {
			return nil, err
		}
		if i >= 10 {
			took = append(took, time.Since(began))
		}
	}
	return NewLatency(took), nil
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
