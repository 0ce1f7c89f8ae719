package ftebench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
)

// chunk is the size of the writes and reads that make the load, bytes.
const chunk = 128 << 10

// settle is the part of a measurement's time that passes before it begins.
const settle = 4 // a quarter

// A dialer reaches the backend, by way of a pair of proxies or directly.
type dialer func(context.Context) (net.Conn, error)

// to dials an address.
func to(addr string) dialer {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// open dials and asks for a service.
func open(ctx context.Context, dial dialer, ask byte) (net.Conn, error) {
	c, err := dial(ctx)
	if err != nil {
		return nil, fault.New(fault.Network, "connecting: %w", err)
	}
	if _, err := c.Write([]byte{ask}); err != nil {
		c.Close()
		return nil, fault.New(fault.Network, "asking: %w", err)
	}
	return c, nil
}

// point measures both directions of n connections. pr is nil without a proxy.
func (b *backend) point(ctx context.Context, dial dialer, n int, d time.Duration, pr *pair) (*Point, error) {
	up, err := b.load(ctx, dial, n, d, askSink, pr)
	if err != nil {
		return nil, err
	}
	down, err := b.load(ctx, dial, n, d, askSource, pr)
	if err != nil {
		return nil, err
	}
	return &Point{
		Connections: n, Up: up.mbit, Down: down.mbit,
		ClientUp: up.client, ServerUp: up.server, ClientDown: down.client, ServerDown: down.server,
		ClientRSS: max(up.clientRSS, down.clientRSS), ServerRSS: max(up.serverRSS, down.serverRSS),
	}, nil
}

// sample is one direction's measurement: Mbit/s that arrived, cores that the
// proxies kept busy, and their memory under load in 10^6 bytes.
type sample struct{ mbit, client, server, clientRSS, serverRSS float64 }

// usage reads what both proxies have used.
func (p *pair) usage() (client, server proc.Usage, err error) {
	if client, err = proc.Of(p.client.cmd.Process.Pid); err != nil {
		return
	}
	server, err = proc.Of(p.server.cmd.Process.Pid)
	return
}

// load moves as much as it can for a time.
func (b *backend) load(ctx context.Context, dial dialer, n int, d time.Duration, ask byte, pr *pair) (out sample, err error) {
	count := &b.sunk
	if ask == askSource {
		count = new(atomic.Int64)
	}
	start := count.Load()
	var wg sync.WaitGroup
	var conns []net.Conn
	defer func() {
		if ask == askSource { // this is the receiving end
			for _, c := range conns {
				abort(c)
			}
		}
		err = errors.Join(err, b.cut(ctx))
		for _, c := range conns {
			c.Close()
		}
		wg.Wait()
	}()
	// Open all connections before the first one sends data.
	for range n {
		c, err := dial(ctx)
		if err != nil {
			return out, fault.New(fault.Network, "connecting: %w", err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		wg.Go(func() {
			if _, err := c.Write([]byte{ask}); err != nil {
				return // its share is missing from the sum
			}
			buf := make([]byte, chunk)
			if ask == askSource {
				drain(c, buf, count)
				return
			}
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		})
	}
	// Begin when bytes flow; slow languages need some time to fill buffers.
	for late := time.Now().Add(2 * pingTime); count.Load() == start; {
		if time.Now().After(late) {
			return out, fault.New(fault.Timeout, "nothing arrives over %d connections", n)
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return out, err
		}
	}
	if err := wait(ctx, d/settle); err != nil {
		return out, err
	}
	var c0, s0, c1, s1 proc.Usage
	if pr != nil {
		if c0, s0, err = pr.usage(); err != nil {
			return out, err
		}
	}
	began, before := time.Now(), count.Load()
	if err := wait(ctx, d); err != nil {
		return out, err
	}
	// On an overloaded machine no byte may have moved in that time, so wait for
	// some.
	for late := time.Now().Add(2 * pingTime); count.Load() == before && time.Now().Before(late); {
		if err := wait(ctx, time.Millisecond); err != nil {
			return out, err
		}
	}
	took, moved := time.Since(began), count.Load()-before
	if pr != nil {
		if c1, s1, err = pr.usage(); err != nil {
			return out, err
		}
	}
	seconds := took.Seconds()
	return sample{
		mbit:   8 * float64(moved) / seconds / 1e6,
		client: (c1.CPU - c0.CPU).Seconds() / seconds, server: (s1.CPU - s0.CPU).Seconds() / seconds,
		clientRSS: float64(c1.RSS) / 1e6, serverRSS: float64(s1.RSS) / 1e6,
	}, nil
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Closed, ctx.Err())
	}
}

// line returns a point as a line of text.
func (p *Point) line(kind, format string) string {
	s := fmt.Sprintf("%-8s %-18s %4d connections: up %7.0f Mbit/s, down %7.0f", kind, format, p.Connections, p.Up, p.Down)
	if p.Iperf > 0 {
		s += fmt.Sprintf(", iperf up %7.0f", p.Iperf)
	}
	if p.ServerRSS > 0 {
		s += fmt.Sprintf("; client %.2f cores %.0f MB, server %.2f cores %.0f MB", p.ClientUp, p.ClientRSS, p.ServerUp, p.ServerRSS)
	}
	return s
}
