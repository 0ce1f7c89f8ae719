package ftebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/lab/proc"
)

// What a connection asks the backend for, by its first byte.
const (
	askSink   = 'S' // takes bytes until the end, and counts them
	askSource = 'D' // sends bytes until it is closed
	askEcho   = 'E' // sends back what comes
)

// chunk is the size of the writes and reads that make the load, bytes.
const chunk = 128 << 10

// settle is the part of a measurement's time that passes before it begins.
const settle = 4 // a quarter

// backend is what the proxies' server connects to.
type backend struct {
	l    net.Listener
	sunk atomic.Int64 // bytes that sinks took

	mu    sync.Mutex
	conns map[net.Conn]struct{} // that are being served
}

func newBackend() (*backend, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Network, "listening: %w", err)
	}
	b := &backend{l: l, conns: make(map[net.Conn]struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go b.serve(c)
		}
	}()
	return b, nil
}

func (b *backend) addr() string { return b.l.Addr().String() }
func (b *backend) close()       { b.l.Close() }

// serve does what a connection asks for. What goes wrong on it is the other
// end's to see.
func (b *backend) serve(c net.Conn) {
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	defer func() {
		c.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	var ask [1]byte
	if _, err := io.ReadFull(c, ask[:]); err != nil {
		return
	}
	buf := make([]byte, chunk)
	switch ask[0] {
	case askSink:
		drain(c, buf, &b.sunk)
		c.Write(ask[:])
	case askSource:
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	case askEcho:
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// cut ends every connection where it stands, and waits until all have ended.
// Cut at the end that receives, what the proxies still hold goes nowhere, and
// does not run into the next measurement.
func (b *backend) cut(ctx context.Context) error {
	for late := time.Now().Add(6 * pingTime); ; {
		b.mu.Lock()
		left := len(b.conns)
		for c := range b.conns {
			abort(c)
		}
		b.mu.Unlock()
		switch {
		case left == 0:
			return nil
		case time.Now().After(late):
			return fault.New(fault.Timeout, "%d connections of the last measurement don't end", left)
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// abort closes a connection and drops what it has not sent.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0) // it may be closed already, which is as good
	}
	c.Close()
}

// drain reads to the end and counts.
func drain(c net.Conn, buf []byte, count *atomic.Int64) {
	for {
		n, err := c.Read(buf)
		count.Add(int64(n))
		if err != nil {
			return
		}
	}
}

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
		if ask == askSource { // here is the end that receives
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
	// All are there before the first one gets busy.
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
	// Begin when bytes flow; slow languages take their time to fill buffers.
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
	// However short the time: on a starved machine nothing may have moved in it.
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

// pingTime bounds one round trip, which shows that a pair does not work.
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

// expansionBytes is what is sent to measure expansion.
const expansionBytes = 4 << 20

// expansion returns how many bytes pass the counter for each that is carried,
// up and down.
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

// line is a point as a line of text.
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
