package plugin

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/upstream"
)

// dialer returns the function that opens connections, directly or through the
// proxy that Tor names, from the addresses that Tor names.
func dialer(p *upstream.Proxy, from netaddr.Sources) func(ctx context.Context, addr string) (net.Conn, error) {
	direct := func(ctx context.Context, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: 60 * time.Second, Control: outbound.Late}
		if a, err := netip.ParseAddrPort(addr); err == nil {
			d.LocalAddr = outbound.Local(from, a.Addr())
		} else {
			d.LocalAddr = outbound.Any(from)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	if p == nil {
		return direct
	}
	toProxy := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) { return direct(ctx, addr.String()) }
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
