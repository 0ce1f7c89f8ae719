package socks

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/nonblock"
)

// watched counts the reads that wait for a program.
type watched struct {
	net.Conn
	reads atomic.Int32
}

func (w *watched) Read(p []byte) (int, error) {
	w.reads.Add(1)
	return w.Conn.Read(p)
}

// TestQuickRequestIsNotWatched: while a request is young, nothing looks whether its program is
// there; later something does, and ends it when the program goes.
func TestQuickRequestIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn := &watched{Conn: near}
		s := NewSOCKS(Config{Dialer: newEndless()})
		defer s.Close()
		c := &client{Conn: conn, s: s, log: slog.New(slog.DiscardHandler)}
		c.open()
		c.present(t.Context(), func(context.Context) {
			time.Sleep(watchAfter / 2)
			synctest.Wait()
		})
		if n := conn.reads.Load(); n != 0 {
			t.Errorf("%d reads for a quick request", n)
		}
		c.present(t.Context(), func(ctx context.Context) {
			time.Sleep(2 * watchAfter)
			if n := conn.reads.Load(); n != 1 {
				t.Errorf("%d reads for a slow request", n)
			}
			far.Close()
			<-ctx.Done()
			if err := context.Cause(ctx); err != errGone {
				t.Error(err)
			}
		})
		near.Close()
	})
}

// TestHandshakeIO: a program's first bytes are read and written by calls of which Go's scheduler
// need not know, and its connection has no probes of TCP when it is of this machine.
func TestHandshakeIO(t *testing.T) {
	s := NewSOCKS(Config{Dialer: newEndless()})
	got := make(chan *client, 1)
	s.handle = func(_ context.Context, c *client) {
		_, fast := c.io.(*nonblock.Socket)
		if fast != nonblock.Available {
			t.Errorf("by calls that do not wait: %v", fast)
		}
		if alive(t, c.Conn) {
			t.Error("keep-alive probes on loopback")
		}
		b, err := c.br.ReadByte()
		if err != nil || b != 'x' {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := c.Write([]byte("y")); err != nil {
			t.Error(err)
		}
		got <- c
	}
	c := dialTCP(t, start(t, s))
	say(t, c, 'x')
	hear(t, c, 'y')
	<-got
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}
