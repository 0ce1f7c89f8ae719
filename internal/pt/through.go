package pt

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/upstream"
)

// Through is a client's transport behind a SOCKS port: of a process that Launch keeps running, or of a
// program that runs already. It is a Client of package transport.
type Through struct {
	find func(context.Context) (Method, error)
	dial upstream.DialFunc
}

// Transport is one of the process's transports. dial connects to its SOCKS port.
func (p *Process) Transport(name string, dial upstream.DialFunc) *Through {
	return &Through{func(ctx context.Context) (Method, error) { return p.Method(ctx, name) }, dial}
}

// Transport is the transport of a program that runs already. dial connects to its SOCKS port.
func (m Method) Transport(dial upstream.DialFunc) *Through {
	return &Through{func(context.Context) (Method, error) { return m, nil }, dial}
}

// Dial connects to a bridge. The program connects to the network by itself, so the function
// for that has no use here.
func (t *Through) Dial(ctx context.Context, _ func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	m, err := t.find(ctx)
	if err != nil {
		return nil, err
	}
	return m.Dial(ctx, t.dial, bridge, args)
}
