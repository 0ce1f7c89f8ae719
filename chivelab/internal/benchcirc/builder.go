package benchcirc

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// Builder builds circuits by one path of a network that exists, for other measurements: it measures each
// as Run does.
type Builder struct{ c *client }

// NewBuilder returns a builder of circuits by the path, the nearest relay first, with a handshake and a carriage as
// in Plan. It fetches the directory first. dial opens its connections.
func NewBuilder(ctx context.Context, network *netdir.Network, path []ident.RSAID, handshake, carriage string, dial func(context.Context, netip.AddrPort) (net.Conn, error)) (*Builder, error) {
	p := &Plan{Count: 1, Hops: len(path), Handshake: handshake, Carriage: carriage}
	if err := p.Check(); err != nil {
		return nil, err
	}
	c, err := newClient(ctx, p, network, nil, path, dial)
	if err != nil {
		return nil, err
	}
	return &Builder{c}, nil
}

// Named fetches the directory of a network, and returns the identities of relays by their nicknames. Each must be that
// of exactly one relay: nobody stops a relay from taking another one's.
func Named(ctx context.Context, network *netdir.Network, names []string, dial func(context.Context, netip.AddrPort) (net.Conn, error)) ([]ident.RSAID, error) {
	c, err := newClient(ctx, &Plan{Count: 1, Hops: 1, Handshake: "ntor-v3"}, network, nil, nil, dial)
	if err != nil {
		return nil, err
	}
	defer c.close()
	out := make([]ident.RSAID, len(names))
	for i, name := range names {
		found := 0
		for r := range c.dir.All() {
			if r.Nickname() == name && r.HasMicrodesc() {
				out[i] = r.RSA()
				found++
			}
		}
		if found != 1 {
			return nil, fault.New(fault.Directory, "%d relays of the directory are called %s, not one", found, name)
		}
	}
	return out, nil
}

// Directory fetches and verifies the directory anew, and returns how long that took.
func (b *Builder) Directory(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	_, err := b.c.fetch(ctx)
	return time.Since(began), err
}

// Open builds a circuit. The caller must call Over when it is done with it.
func (b *Builder) Open(ctx context.Context) (*circuit.Circuit, Sample, error) {
	circ, s, _, err := b.c.open(ctx, b.c.plan.Hops)
	return circ, s, err
}

// Over closes a circuit.
func (b *Builder) Over(circ *circuit.Circuit) { circ.Close(cell.DestroyNone, errOver) }

// Close closes the links.
func (b *Builder) Close() { b.c.close() }
