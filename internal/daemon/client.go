package daemon

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/socks"
)

// Client is what this package needs of a client. *chive.Client has these
// methods, but for Isolated's result.
type Client interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve returns the addresses of host.
	Resolve(ctx context.Context, host string) ([]netip.Addr, error)
	// ResolvePTR returns the names of addr.
	ResolvePTR(ctx context.Context, addr netip.Addr) ([]string, error)
	// Isolated returns a client that shares everything with this one but
	// circuits: only equal tokens share those. Tokens must be comparable.
	Isolated(token ...any) Client
	Status() chive.Status
	// Events returns what happens from now on, until the function is called
	// or the client is closed.
	Events() (<-chan chive.Event, func())
	// WriteMetrics writes Prometheus text, MetricsJSON one JSON object.
	WriteMetrics(w io.Writer) error
	MetricsJSON(w io.Writer) error
	Close() error
}

// earlyDialer is a client that can send a stream's first bytes along with the
// request to connect.
type earlyDialer interface {
	DialEarly(ctx context.Context, network, address string, early []byte) (net.Conn, error)
}

// answerTTL is how long a program may keep an answer of the DNS port, in
// seconds. Exits clip what they say to a minute or an hour, so that answers
// tell nothing of when they were cached; a minute is safe for either.
const answerTTL = 60

// network is a client behind the front doors.
type network struct{ client Client }

var _ socks.Dialer = network{}

func (n network) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	addr := net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port)))
	c := n.client.Isolated(req.Isolation)
	if e, ok := c.(earlyDialer); ok && len(req.Early) > 0 {
		return e.DialEarly(ctx, "tcp", addr, req.Early)
	}
	conn, err := c.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if len(req.Early) > 0 {
		if _, err := conn.Write(req.Early); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func (n network) Resolve(ctx context.Context, req socks.Request) ([]socks.Answer, error) {
	addrs, err := n.client.Isolated(req.Isolation).Resolve(ctx, req.Host)
	out := make([]socks.Answer, len(addrs))
	for i, a := range addrs {
		out[i] = socks.Answer{Addr: a, TTL: answerTTL}
	}
	return out, err
}

func (n network) ResolvePTR(ctx context.Context, addr netip.Addr, req socks.Request) ([]socks.Answer, error) {
	names, err := n.client.Isolated(req.Isolation).ResolvePTR(ctx, addr)
	out := make([]socks.Answer, len(names))
	for i, name := range names {
		out[i] = socks.Answer{Name: name, TTL: answerTTL}
	}
	return out, err
}
