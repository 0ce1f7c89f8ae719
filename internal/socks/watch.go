package socks

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// watchAfter is how long a request takes before somebody looks whether its program is still
// there. Most requests have their answer before, and it must not wait until the look has ended.
const watchAfter = 100 * time.Millisecond

// present runs what a program has asked for, as long as the program is there: ctx of f ends
// when the program has gone, by whatever it did to go.
func (c *client) present(ctx context.Context, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.become(stateAsked)
	c.SetDeadline(time.Time{})
	done := make(chan struct{})
	watch := time.AfterFunc(watchAfter, func() {
		defer panics.Recover(c.log, cancel)
		defer close(done)
		if c.vanished = c.gone(); c.vanished {
			cancel(errGone)
		}
	})
	defer func() {
		if !watch.Stop() {
			c.SetReadDeadline(time.Unix(1, 0)) // which ends gone
			<-done
		}
		c.SetDeadline(time.Now().Add(c.s.cfg.HandshakeTimeout)) // for the reply
	}()
	f(ctx)
}

// goneReading waits like gone, by reading ahead. After an end that the program has written it
// cannot know whether the program is there: it may have closed the connection, or only its
// side, after it sent all that it has to send. Who has sent nothing is taken for gone.
func (c *client) goneReading() bool {
	if c.br.Buffered() == c.br.Size() {
		return false // no room to read ahead: the client has to wait
	}
	want := c.br.Buffered() + 1
	_, err := c.br.Peek(want)
	switch {
	case err == nil, isTimeout(err):
		return false
	case errors.Is(err, io.EOF) && want > 1:
		c.become(stateEnded)
		return false
	}
	return true
}

// probe writes the first byte of the reply, which is the same whatever the reply says: if the
// program has closed the connection, its system resets it now. It reports whether there is
// such a byte.
func (c *client) probe() bool {
	if len(c.first) == 0 || c.probed {
		return false
	}
	c.probed = true
	_, err := c.Conn.Write(c.first[:1])
	return err == nil
}

// answer writes a reply.
func (c *client) answer(b []byte) error {
	if c.probed {
		b = b[1:]
	}
	_, err := c.Write(b)
	return err
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
