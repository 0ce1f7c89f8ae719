package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"

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
	return c.connectBy(ctx, c.cfg.Dial, addr)
}

func (c *Client) connectBy(ctx context.Context, dial upstream.DialFunc, addr netip.AddrPort) (net.Conn, error) {
	if p := c.cfg.Upstream; p != nil {
		return p.DialAddr(ctx, dial, addr)
	}
	return dial(ctx, addr)
}

// dialInside is how transports inside this process reach the network: as the client itself does,
// by the upstream proxy and within the user's rules. There are no names, because who would look them up
// sees them.
func (c *Client) dialInside(ctx context.Context, network, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil || to.Addr().Zone() != "" {
		return nil, fault.New(fault.Refused, "a transport may connect to IP:PORT only, and look up no names")
	}
	to = netaddr.PlainPort(to)
	if ok := map[string]bool{"tcp": true, "tcp4": to.Addr().Is4(), "tcp6": to.Addr().Is6()}[network]; !ok {
		return nil, fault.New(fault.Refused, "a transport may connect by tcp, tcp4 and tcp6 only, and to addresses of that family")
	}
	if !c.live.Load().Path.Reachable.Allows(to) {
		return nil, path.ErrUnreachable
	}
	return c.connectBy(ctx, c.insideDial, to)
}

// noRoute reports whether nothing was sent to an address, as this machine has none of its family: then nobody has seen that it was tried.
func noRoute(err error) bool {
	return slices.ContainsFunc(noRoutes, func(e error) bool { return errors.Is(err, e) })
}

// dialTCP returns the dialler of a client whose program gives it none.
func dialTCP(from netaddr.Sources) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		d := net.Dialer{LocalAddr: outbound.Local(from, addr.Addr()), Control: outbound.Late, KeepAlive: -1} // C tor has none, and who watches sees it
		return d.DialContext(ctx, "tcp", addr.String())
	}
}
