// Package proxydial lets the proxy listeners (SOCKS, HTTP CONNECT, DNS) dial
// and look names up through a client.
package proxydial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/stream"
)

// Client is what a listener needs of a *chive.Client.
type Client interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Lookup(ctx context.Context, host string) ([]chive.Answer, error)
}

var _ Client = (*chive.Client)(nil)

// Dialer has a client do what programs ask a listener for, on the circuits that
// each request's isolation allows.
type Dialer struct{ Client Client }

var _ socks.Dialer = Dialer{}

// Dial implements socks.Dialer.
func (d Dialer) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	ctx = stream.WithPermit(stream.WithFamily(isolation.NewContext(ctx, req.Isolation), req.Family), req.Permit)
	if len(req.Early) > 0 {
		ctx = chive.WithEarlyData(ctx, req.Early)
	}
	conn, err := d.Client.DialContext(ctx, "tcp", net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))))
	return conn, because(err)
}

// Mapped reports whether a rule of MapAddress is for an address.
func (d Dialer) Mapped(addr string) bool { return d.StandsFor(addr) != addr }

// StandsFor returns the host that a host stands for, by the rules of MapAddress.
func (d Dialer) StandsFor(host string) string {
	c, ok := d.Client.(interface{ Config() chive.Config })
	if !ok {
		return host
	}
	m, err := client.ParseAddrMap(c.Config().MapAddress)
	if err != nil {
		return host
	}
	to, err := m.Of(host)
	if err != nil {
		return host
	}
	return to
}

// onionReasons says what a listener answers when an onion service cannot be reached.
var onionReasons = []struct {
	err    error
	reason socks.Reason
}{
	{chive.ErrOnionAddress, socks.OnionBadAddr},
	{chive.ErrOnionNeedsAuth, socks.OnionNoAuth},
	{chive.ErrOnionBadAuth, socks.OnionBadAuth},
	{chive.ErrOnionDescriptor, socks.OnionBadDesc},
	{chive.ErrOnionNoDescriptor, socks.OnionNoDesc},
	{chive.ErrOnionRendezvous, socks.OnionRend},
	{chive.ErrOnionIntroduction, socks.OnionIntro},
	{chive.ErrOnionTimeout, socks.OnionIntroTime},
}

// because attaches the reason to an error about an onion service.
func because(err error) error {
	for _, r := range onionReasons {
		if errors.Is(err, r.err) {
			return socks.Because(r.reason, err)
		}
	}
	return err
}

// Resolve implements socks.Dialer.
func (d Dialer) Resolve(ctx context.Context, req socks.Request) ([]socks.Answer, error) {
	return d.lookup(ctx, req.Host, req)
}

// ResolvePTR implements socks.Dialer.
func (d Dialer) ResolvePTR(ctx context.Context, addr netip.Addr, req socks.Request) ([]socks.Answer, error) {
	return d.lookup(ctx, addr.String(), req)
}

func (d Dialer) lookup(ctx context.Context, what string, req socks.Request) ([]socks.Answer, error) {
	answers, err := d.Client.Lookup(stream.WithPermit(isolation.NewContext(ctx, req.Isolation), req.Permit), what)
	if err != nil {
		return nil, err
	}
	out := make([]socks.Answer, len(answers))
	for i, a := range answers {
		out[i] = socks.Answer{Addr: a.Addr, Name: a.Name, TTL: uint32(a.TTL / time.Second)}
	}
	return out, nil
}
