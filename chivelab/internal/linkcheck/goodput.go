package linkcheck

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Goodput is what TCP made of a link.
type Goodput struct {
	Bytes   int64          `json:"bytes"`
	Took    time.Duration  `json:"took_ns"` // from the first byte that came to the last
	Late    links.Lateness `json:"late"`
	Refused string         `json:"refused,omitempty"` // why it does not count: then there are no figures
}

// Mbits is the rate in Mbit/s.
func (g *Goodput) Mbits() float64 { return float64(g.Bytes) * 8 / 1e6 / g.Took.Seconds() }

// RunTCP sends bytes from a host behind the rules to another by TCP. What comes back goes a way
// that takes no time.
func RunTCP(ctx context.Context, c Config, bytes int64) (*Goodput, error) {
	if err := c.Rules.Check(); err != nil {
		return nil, err
	}
	n := links.NewNet(c.Seed)
	defer n.Close()
	other := links.Direction{Rules: links.Rules{MTU: c.Rules.MTU}}
	from, to := links.Access{Up: links.Direction{Rules: c.Rules}, Down: other}, links.Access{Up: other, Down: other}
	carry := carryStack
	if len(c.Probe) > 0 {
		carry = carryTUN
	}
	took, err := carry(ctx, n, c, from, to, bytes)
	if err != nil {
		return nil, err
	}
	g := &Goodput{Bytes: bytes, Took: took, Late: n.Lateness()}
	if err := c.Bound.Refuse(g.Late); err != nil {
		g.Bytes, g.Took, g.Refused = 0, 0, err.Error()
	}
	return g, nil
}

// upload writes bytes, and waits until the other side has read them and closed.
func upload(c net.Conn, bytes int64) error {
	defer c.Close()
	if _, err := io.CopyN(c, zeros{}, bytes); err != nil {
		return fault.New(fault.Network, "upload over the emulated link: %w", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fault.New(fault.Network, "the end of an upload over the emulated link: %w", err)
	}
	return nil
}

// zeros is a reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// download reads bytes from the next connection, and says how long they took.
func download(l net.Listener, bytes int64) (time.Duration, error) {
	c, err := l.Accept()
	if err != nil {
		return 0, fault.New(fault.Network, "accept on the emulated network: %w", err)
	}
	defer c.Close()
	first, err := c.Read(make([]byte, 1))
	began := now()
	if err == nil {
		_, err = io.CopyN(io.Discard, c, bytes-int64(first))
	}
	if err != nil {
		return 0, fault.New(fault.Network, "download over the emulated link: %w", err)
	}
	return now() - began, nil
}

// carryStack carries bytes between hosts in this process.
func carryStack(ctx context.Context, n *links.Net, _ Config, from, to links.Access, bytes int64) (time.Duration, error) {
	a, err := linkstack.Attach(n, sender, from)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	b, err := linkstack.Attach(n, receiver, to)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	l, err := b.Listen(port)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go panics.Contain(nil, func(err error) { sent <- err }, func() {
		conn, err := a.Dial(ctx, netip.AddrPortFrom(receiver, port))
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			err = upload(conn, bytes)
			stop()
		}
		if err != nil {
			l.Close() // nothing comes
		}
		sent <- err
	})()
	took, err := download(l, bytes)
	if ctx.Err() != nil {
		return 0, errors.Join(context.Cause(ctx), <-sent)
	}
	return took, errors.Join(err, <-sent)
}
