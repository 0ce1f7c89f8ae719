package relay

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/transport"
)

// insideShare is the part of MaxMemory that the transports in this process may use together,
// 1/4: what they hold is not on the relay's account.
const insideShare = 4

// linkMemory bounds what peers can make the relay hold, without its transports.
func (c *Config) linkMemory() int64 {
	if len(c.Inside) == 0 {
		return c.MaxMemory
	}
	return c.MaxMemory - c.MaxMemory/insideShare
}

// insideMemory bounds what peers can make one of the transports hold.
func (c *Config) insideMemory() int64 { return c.MaxMemory / insideShare / int64(len(c.Inside)) }

// The time that a transport has to open its port, and the time before another attempt.
const (
	insideTimeout  = 30 * time.Second
	insideRetry    = 500 * time.Millisecond
	insideRetryMax = time.Minute
)

// inside is a transport in this process.
type inside struct {
	r    *Relay
	name string
	t    transport.Server

	mu      sync.Mutex    // guards what follows
	method  pt.Method     // where it listens
	err     error         // why it does not
	known   bool          // one of the two holds
	changed chan struct{} // closed at every change of the above
}

func newInside(r *Relay) (all []*inside) {
	for _, n := range slices.Sorted(maps.Keys(r.cfg.Inside)) {
		all = append(all, &inside{r: r, name: n, t: r.cfg.Inside[n], changed: make(chan struct{})})
	}
	return all
}

// Method waits until the transport listens, and returns where.
func (d *inside) Method(ctx context.Context) (pt.Method, error) {
	for {
		m, known, changed, err := d.state()
		switch {
		case known && err != nil:
			return m, fault.New(fault.KindOf(err), "transport %s: %w", d.name, err)
		case known && !m.Addr.IsValid():
			return m, fault.New(fault.Local, "transport %s: it does not say where it listens", d.name)
		case known:
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return m, fault.Ended(ctx, "transport %s: waiting for its port: %w", d.name, context.Cause(ctx))
		}
	}
}

func (d *inside) state() (m pt.Method, known bool, changed chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.method, d.known, d.changed, d.err
}

func (d *inside) set(m pt.Method, err error, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.method, d.err, d.known = m, err, known
	close(d.changed)
	d.changed = make(chan struct{})
}

// run serves the transport's connections until ctx is done. A port that cannot be opened, or
// that fails, is tried again.
func (d *inside) run(ctx context.Context, ports *chosenPorts) {
	defer d.set(pt.Method{}, nil, false)
	wait := insideRetry
	for {
		began := time.Now()
		err := d.serve(ctx, ports)
		if ctx.Err() != nil {
			return
		}
		d.set(pt.Method{}, err, true)
		if time.Since(began) > insideRetryMax {
			wait = insideRetry
		}
		d.r.log.Warn("a transport of this bridge does not listen; it is tried again", "transport", d.name, "in", wait, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, insideRetryMax)
	}
}

// serve opens the port and accepts connections until that fails.
func (d *inside) serve(ctx context.Context, ports *chosenPorts) error {
	c := &d.r.cfg
	cfg := transport.ServerConfig{
		Options: c.TransportOptions[d.name], Dir: c.transportDir(), Listen: listenInside,
		MaxConns: int(d.r.gate.limit), MaxMemory: c.insideMemory(), Log: d.r.log.With(slog.String("transport", d.name)),
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fault.New(fault.Local, "its state directory: %w", err)
	}
	told, given := ports.bind(c.TransportListen)[d.name]
	if cfg.Addr = told; !given {
		cfg.Addr = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	opening, cancel := context.WithTimeout(ctx, insideTimeout)
	defer cancel()
	ln, args, err := transport.Listen(opening, d.t, cfg)
	if err != nil {
		return err
	}
	at := netaddr.OfPort(ln.Addr())
	if !at.IsValid() && cfg.Addr.Port() != 0 {
		at = cfg.Addr
	}
	if _, configured := c.TransportListen[d.name]; !configured && at.IsValid() && at != told {
		ports.chose(d.name, at)
	}
	d.set(pt.Method{Addr: at, Args: args}, nil, true)
	var wg sync.WaitGroup
	defer wg.Wait()
	return listen.Serve(ctx, ln, d.r.log, "transport "+d.name, func(raw net.Conn) {
		conn, ok := raw.(*transport.Conn)
		if !ok { // no transport's
			raw.Close()
			return
		}
		wg.Go(panics.Contain(d.r.log, func(error) { conn.Close() }, func() { d.r.welcomeInside(ctx, conn) }))
	})
}

// listenInside opens a port for a transport, or takes one over.
func listenInside(_ context.Context, network, addr string) (net.Listener, error) {
	l, err := inherit.Listen(new(net.ListenConfig), network, addr)
	if err != nil {
		return nil, listen.Failed(addr, err)
	}
	return l, nil
}

// welcomeInside does the link handshake of a connection of a transport, whose client's address may be known.
func (r *Relay) welcomeInside(ctx context.Context, conn *transport.Conn) {
	from := netaddr.Of(conn.RemoteAddr())
	if r.draining.Load() || r.resting.Load() || !r.gate.enterHandshake(conn, from, false) {
		r.stats.ConnsRefused.Add(1)
		conn.Close()
		return
	}
	c := &gatedConn{Conn: conn, ticket: ticket{gate: r.gate}}
	if from.IsValid() {
		if !r.dos.connect(from) {
			r.stats.ConnsRefused.Add(1)
			r.gate.leaveHandshake(conn)
			c.Close()
			return
		}
		c.closed = func() { r.dos.disconnect(from) }
	}
	r.shake(ctx, c)
}
