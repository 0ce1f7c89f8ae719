package pt

import (
	"context"
	"io"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/upstream"
)

// Dial connects to target through a client transport's SOCKS port, with the
// arguments of the bridge (pt-spec 3.5). dial opens the connection to that
// port.
func (m Method) Dial(ctx context.Context, dial upstream.DialFunc, target netip.AddrPort, args ptspec.Args) (net.Conn, error) {
	c, err := dial(ctx, m.Addr)
	if err != nil {
		return nil, fault.New(fault.Network, "transport: its SOCKS port: %w", err)
	}
	if err := upstream.Within(ctx, c, func() error { return m.ask(c, target, args.ClientText()) }); err != nil {
		c.Close()
		return nil, fault.New(fault.KindOf(err), "transport: %w", err)
	}
	return c, nil
}

// ask makes the request, with the arguments as user name and password.
func (m Method) ask(c io.ReadWriter, target netip.AddrPort, args string) error {
	host := target.Addr().Unmap().String()
	if m.Proto == "socks4" {
		return upstream.SOCKS4(c, host, target.Port(), args)
	}
	if len(args) > ptspec.MaxClientText {
		return fault.New(fault.Config, "the arguments have %d bytes; SOCKS5 can carry %d", len(args), ptspec.MaxClientText)
	}
	n := min(len(args), 255)
	l := upstream.Login{User: args[:n], Password: args[n:], Known: args != "", Must: args != ""}
	if l.Password == "" {
		l.Password = "\x00" // it must not be empty
	}
	return upstream.SOCKS5(c, host, target.Port(), l)
}
