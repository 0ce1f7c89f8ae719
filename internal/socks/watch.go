package socks

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// watch reads ahead while the client waits for its reply, and cancels when
// its connection breaks. A clean end of its writing is no break: a client may
// send everything and half-close before it hears that it is connected.
// The function it returns ends the watch; what was read stays in the buffer.
func (c *client) watch(cancel context.CancelFunc) (stop func()) {
	if c.br.Buffered() == c.br.Size() {
		return func() {} // no room to read ahead: the client has to wait
	}
	done := make(chan struct{})
	want := c.br.Buffered() + 1
	go func() {
		defer panics.Recover(c.log, func(error) { cancel() })
		defer close(done)
		_, err := c.br.Peek(want)
		if err != nil && !errors.Is(err, io.EOF) && !isTimeout(err) {
			cancel()
		}
	}()
	return func() {
		c.SetReadDeadline(time.Unix(1, 0))
		<-done
		c.SetReadDeadline(time.Time{})
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
