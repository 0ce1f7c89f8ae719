package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/socks"
)

// Client is what this package needs of a client: a part of *chive.Client.
type Client interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Lookup(ctx context.Context, host string) ([]chive.Answer, error)
	Status() chive.Status
	Reload(chive.Config) error
	Events() (<-chan chive.Event, func())
	WriteMetrics(w io.Writer) error
	MetricsSnapshot() any
	Close() error
}

var _ Client = (*chive.Client)(nil)

// network is a client behind the front doors.
type network struct{ client Client }

var _ socks.Dialer = network{}

// Dial implements socks.Dialer.
func (n network) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	ctx = isolated(ctx, req)
	if len(req.Early) > 0 {
		ctx = chive.WithEarlyData(ctx, req.Early)
	}
	return n.client.DialContext(ctx, "tcp", net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))))
}

// Resolve implements socks.Dialer.
func (n network) Resolve(ctx context.Context, req socks.Request) ([]socks.Answer, error) {
	return n.lookup(ctx, req.Host, req)
}

// ResolvePTR implements socks.Dialer.
func (n network) ResolvePTR(ctx context.Context, addr netip.Addr, req socks.Request) ([]socks.Answer, error) {
	return n.lookup(ctx, addr.String(), req)
}

func (n network) lookup(ctx context.Context, what string, req socks.Request) ([]socks.Answer, error) {
	answers, err := n.client.Lookup(isolated(ctx, req), what)
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
