package transport

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/ptspec"
)

// Listener is a port of a transport. Its Close does not wait for the transport's.
type Listener struct {
	inner net.Listener
	log   *slog.Logger
	addr  netip.AddrPort
	came  chan accepted
	once  sync.Once
	done  chan struct{} // closed by Close
}

type accepted struct {
	conn net.Conn
	err  error
}

// Listen asks a transport for a port, and returns the arguments that clients need. When ctx
// ends, Listen returns, and a port that the transport opens later is closed.
func Listen(ctx context.Context, t Server, cfg ServerConfig) (*Listener, ptspec.Args, error) {
	type result struct {
		ln   net.Listener
		args map[string]string
		err  error
	}
	log := cfg.Log
	cfg.Options = maps.Clone(cfg.Options)
	done := make(chan result)
	go panics.Contain(log, nil, func() {
		var r result
		panics.Contain(log, func(err error) { r.err = err }, func() { r.ln, r.args, r.err = t.Listen(ctx, cfg) })()
		select {
		case done <- r:
		case <-ctx.Done():
			if r.ln != nil {
				r.ln.Close()
			}
		}
	})()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		return nil, nil, fault.Ended(ctx, "transport: %w", context.Cause(ctx))
	}
	if r.err == nil && r.ln == nil {
		r.err = fault.New(fault.Local, "it gave no port")
	}
	args := ptspec.Args(maps.Clone(r.args))
	if r.err == nil {
		r.err = args.CheckLine()
	}
	var l *Listener
	if r.ln != nil {
		l = &Listener{inner: r.ln, log: log, came: make(chan accepted), done: make(chan struct{})}
	}
	if r.err != nil {
		if l != nil {
			l.Close()
		}
		return nil, nil, fault.New(fault.KindOf(r.err), "transport: %w", hide(r.err))
	}
	l.addr = addrOf(log, r.ln.Addr)
	go panics.Contain(log, func(err error) { l.give(accepted{err: err}) }, l.run)()
	return l, args, nil
}

// run accepts until the transport fails, or the listener is closed.
func (l *Listener) run() {
	for {
		c, err := l.inner.Accept()
		if err == nil && c == nil {
			err = fault.New(fault.Local, "the transport gave no connection")
		}
		if err != nil {
			c = nil
		}
		if !l.give(accepted{c, err}) {
			if c != nil {
				c.Close()
			}
			return
		}
	}
}

// give hands a connection or an error to Accept; false: the listener is closed.
func (l *Listener) give(a accepted) bool {
	select {
	case l.came <- a:
		return true
	case <-l.done:
		return false
	}
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case a := <-l.came:
		if a.err != nil {
			return nil, hide(a.err)
		}
		return newConn(a.conn, l.log, addrOf(l.log, a.conn.RemoteAddr), func() {}), nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close closes the port.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		go panics.Contain(l.log, nil, func() { l.inner.Close() })()
	})
	return nil
}

// Addr returns where the port is, if the transport says so.
func (l *Listener) Addr() net.Addr {
	if !l.addr.IsValid() {
		return Unknown
	}
	return net.TCPAddrFromAddrPort(l.addr)
}
