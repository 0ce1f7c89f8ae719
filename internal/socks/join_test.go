package socks

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/stream"
)

// joinNetwork is a network whose connections move bytes by themselves, as streams do.
type joinNetwork struct {
	*network
	joined chan struct{}
	cuts   atomic.Int32
}

func (n *joinNetwork) Dial(ctx context.Context, req Request) (net.Conn, error) {
	c, err := n.network.Dial(ctx, req)
	if err != nil {
		return nil, err
	}
	return &joinedConn{c, n}, nil
}

type joinedConn struct {
	net.Conn
	n *joinNetwork
}

func (c *joinedConn) JoinUp(_ net.Conn, _ []byte, _ *stream.Terms, ends stream.Ends) (stream.Joined, func()) {
	close(c.n.joined)
	return &cuts{nil, c.n, ends}, func() {}
}

// cuts counts how often it is cut.
type cuts struct {
	stream.Joined
	n    *joinNetwork
	ends stream.Ends
}

func (c *cuts) Cut() {
	c.n.cuts.Add(1)
	c.ends.Done()
}

// TestCloseCutsJoined: a server that closes cuts a connection whose bytes move without it,
// once.
func TestCloseCutsJoined(t *testing.T) {
	n := &joinNetwork{network: &network{hosts: map[string]string{"h": peer(t, echo)}}, joined: make(chan struct{})}
	s := NewSOCKS(Config{Dialer: n})
	c := dialTCP(t, start(t, s))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "h", 80)...)
	hear(t, c, ok5...)
	<-n.joined
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if cuts := n.cuts.Load(); cuts != 1 {
		t.Errorf("it was cut %d times", cuts)
	}
}
