// Package proxydial lets the proxy listeners (SOCKS, HTTP CONNECT, DNS) dial
// and look names up through a client.
package proxydial

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/internal/stream"
)

// Whole is a client with what listeners ask it.
type Whole struct {
	*chive.Client
	client.Asker
}

// Of returns a client with what listeners ask it.
func Of(c *chive.Client) Whole { return Whole{c, client.AskerOf(c)} }

// Silence has the client send nothing more; Close must follow.
func (w Whole) Silence() { client.InnerOf(w.Client).Silence() }

// Dialer has a client do what programs ask a listener for, on the circuits that
// each request's isolation allows.
type Dialer struct{ Client client.Asker }

var _ socks.Dialer = Dialer{}

// Dial implements socks.Dialer.
func (d Dialer) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	conn, err := d.Client.DialRequest(ctx, req)
	return conn, because(err)
}

// Mapped reports whether a rule of MapAddress is for an address.
func (d Dialer) Mapped(addr string) bool { return d.StandsFor(addr) != addr }

// StandsFor returns the host that a host stands for, by the rules of MapAddress.
func (d Dialer) StandsFor(host string) string { return d.Client.StandsFor(host) }

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
	return d.lookup(ctx, req)
}

// ResolvePTR implements socks.Dialer.
func (d Dialer) ResolvePTR(ctx context.Context, addr netip.Addr, req socks.Request) ([]socks.Answer, error) {
	req.Host = addr.String()
	return d.lookup(ctx, req)
}

func (d Dialer) lookup(ctx context.Context, req socks.Request) ([]socks.Answer, error) {
	req.Family = stream.AnyFamily // the port chooses of the answers: none of its family is no failure
	answers, err := d.Client.LookupRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	out := make([]socks.Answer, len(answers))
	for i, a := range answers {
		out[i] = socks.Answer(a)
	}
	return out, nil
}
