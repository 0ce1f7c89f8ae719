package socks

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// mistaken dials streams of which one panics.
type mistaken struct{ network }

func (m *mistaken) Dial(ctx context.Context, req Request) (net.Conn, error) {
	if req.Host == "dial" {
		panic("a mistake")
	}
	c, err := m.network.Dial(ctx, req)
	if req.Host == "read" && err == nil {
		c = &mistakenConn{Conn: c}
	}
	return c, err
}

// mistakenConn panics in the midst of an answer: once, after its first bytes,
// however the other end closes.
type mistakenConn struct {
	net.Conn
	reads atomic.Int32
}

func (c *mistakenConn) Read(b []byte) (int, error) {
	switch c.reads.Add(1) {
	case 1:
		return c.Conn.Read(b)
	case 2:
		panic("a mistake in the midst")
	}
	return 0, io.ErrUnexpectedEOF
}

// TestPanicEndsAConnection: one program's connection, by a reset when bytes may
// be missing, and no other's.
func TestPanicEndsAConnection(t *testing.T) {
	panicstest.Expect(t, 2)
	var log panicstest.Log
	half := peer(t, func(c *net.TCPConn) { c.Write([]byte("half")) })
	whole := peer(t, echo)
	s := NewSOCKS(Config{Log: log.Logger(), Dialer: &mistaken{network{hosts: map[string]string{"read": half, "echo": whole}}}})
	addr := start(t, s)
	ask := func(host string) net.Conn {
		c := dialTCP(t, addr)
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0)
		say(t, c, request5(1, host, 1)...)
		return c
	}
	other := ask("echo")
	hear(t, other, ok5...)
	if b, err := io.ReadAll(ask("dial")); err == nil && len(b) > 0 {
		t.Errorf("a panic over a dial is answered with %v", b)
	}
	if b, err := io.ReadAll(ask("read")); err == nil {
		t.Errorf("half an answer has a clean end: %q", b)
	}
	say(t, other, []byte("still here")...)
	hear(t, other, []byte("still here")...)
	other.Close()
	s.Close() // which waits for every connection
	if n := len(log.Panics()); n != 2 {
		t.Errorf("%d stacks were logged", n)
	}
}
