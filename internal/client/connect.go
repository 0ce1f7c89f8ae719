package client

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/upstream"
)

// dial refuses addresses that the user's firewall does not let through, and those that no
// relay of the public network can have; with bridges, all but theirs.
func (c *Client) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if !c.live.Load().Path.Reachable.Allows(addr) {
		return nil, path.ErrUnreachable
	}
	if c.bridge != nil {
		return c.bridge.dial(ctx, addr)
	}
	if !c.cfg.Network.Testing.AllowPrivateAddresses && !netaddr.Public(addr.Addr()) {
		return nil, fault.New(fault.Directory, "the directory names a private address for the relay")
	}
	return c.connect(ctx, addr)
}

// connect opens a connection to a relay or a bridge, by the upstream proxy if there is
// one. If the proxy fails, there is no connection.
func (c *Client) connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if p := c.cfg.Upstream; p != nil {
		return p.DialAddr(ctx, upstream.DialFunc(c.cfg.Dial), addr)
	}
	return c.cfg.Dial(ctx, addr)
}

// dialTCP returns the dialler of a client whose program gives it none.
func dialTCP(from netaddr.Sources) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		d := net.Dialer{LocalAddr: outbound.Local(from, addr.Addr()), Control: outbound.Late}
		return d.DialContext(ctx, "tcp", addr.String())
	}
}
