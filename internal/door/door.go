// Package door joins front doors (SOCKS, HTTP CONNECT, DNS) to a client.
package door

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/socks"
)

// Client is what a front door needs of a *chive.Client.
type Client interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Lookup(ctx context.Context, host string) ([]chive.Answer, error)
}

var _ Client = (*chive.Client)(nil)

// Dialer has a client do what its front doors are asked for, each request on
// circuits of its own isolation.
type Dialer struct{ Client Client }

var _ socks.Dialer = Dialer{}

// Dial implements socks.Dialer.
func (d Dialer) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	ctx = isolated(ctx, req)
	if len(req.Early) > 0 {
		ctx = chive.WithEarlyData(ctx, req.Early)
	}
	return d.Client.DialContext(ctx, "tcp", net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))))
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
	answers, err := d.Client.Lookup(isolated(ctx, req), what)
	if err != nil {
		return nil, err
	}
	out := make([]socks.Answer, len(answers))
	for i, a := range answers {
		out[i] = socks.Answer{Addr: a.Addr, Name: a.Name, TTL: uint32(a.TTL / time.Second)}
	}
	return out, nil
}

// isolated returns a context that keeps req's stream from circuits of
// requests with another isolation.
func isolated(ctx context.Context, req socks.Request) context.Context {
	return chive.WithIsolation(ctx, isolationKey(req.Isolation))
}

// isolationKey tells isolations apart: quoted, so that no two look alike.
func isolationKey(i socks.Isolation) string {
	return fmt.Sprintf("%q %q %v %q %q %d", i.Door, i.Protocol, i.Client, i.Auth, i.Host, i.Port)
}
