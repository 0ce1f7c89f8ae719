package transport

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Dial asks a transport for a connection to a bridge. When ctx ends, Dial returns, and a
// connection that the transport gives later is closed.
func Dial(ctx context.Context, log *slog.Logger, t Client, dial DialFunc, bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	s := newSession(ctx, dial)
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go panics.Contain(log, nil, func() {
		var r result
		panics.Contain(log, func(err error) { r.err = err }, func() { r.conn, r.err = t.Dial(ctx, s.connect, bridge, maps.Clone(args)) })()
		select {
		case done <- r:
		case <-ctx.Done():
			if r.conn != nil {
				r.conn.Close()
			}
		}
	})()
	select {
	case r := <-done:
		switch {
		case r.err != nil && r.conn != nil:
			newConn(r.conn, log, bridge, s.end).Close()
		case r.err == nil && r.conn == nil:
			r.err = fault.New(fault.Local, "it gave no connection")
		case r.err == nil:
			return newConn(r.conn, log, bridge, s.end), nil
		}
		s.end()
		return nil, fault.New(fault.KindOf(r.err), "transport: %w", hide(r.err))
	case <-ctx.Done():
		s.end()
		return nil, fault.Ended(ctx, "transport: %w", context.Cause(ctx))
	}
}
