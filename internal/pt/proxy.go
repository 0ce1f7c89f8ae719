package pt

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/upstream"
)

// dialer returns the function that opens connections: directly, or through the
// proxy that Tor names.
func dialer(p *upstream.Proxy) func(ctx context.Context, addr string) (net.Conn, error) {
	direct := &net.Dialer{Timeout: 60 * time.Second}
	if p == nil {
		return func(ctx context.Context, addr string) (net.Conn, error) { return direct.DialContext(ctx, "tcp", addr) }
	}
	toProxy := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		return direct.DialContext(ctx, "tcp", addr.String())
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		return p.Dial(ctx, toProxy, host, uint16(n))
	}
}
