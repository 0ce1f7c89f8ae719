package socks

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/stream"
)

// joinNetwork is a network whose connections move bytes by themselves, as streams do.
type joinNetwork struct {
	*network
	joined chan stream.DirectionOwner
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

func (c *joinedConn) JoinUp(_ net.Conn, _ []byte, _ *stream.Terms, ends stream.DirectionOwner) (stream.Joined, func()) {
	c.n.joined <- ends
	return &cuts{nil, c.n, ends}, func() {}
}

// CloseWrite and Bytes are what streams have.
func (c *joinedConn) CloseWrite() error             { return nil }
func (c *joinedConn) Bytes() (read, written uint64) { return 1, 1 }

// cuts counts how often it is cut.
type cuts struct {
	stream.Joined
	n    *joinNetwork
	ends stream.DirectionOwner
}

func (c *cuts) Cut() {
	c.n.cuts.Add(1)
	c.ends.Done()
}

// TestCloseCutsJoined: a server that closes cuts a connection whose bytes move without it,
// once.
func TestCloseCutsJoined(t *testing.T) {
	n := &joinNetwork{network: &network{hosts: map[string]string{"h": peer(t, echo)}}, joined: make(chan stream.DirectionOwner, 1)}
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

// TestQuietMakeRoom: a connection makes room for another one if its program has ended its side, and nothing has moved
// since then.
func TestQuietMakeRoom(t *testing.T) {
	n := &joinNetwork{network: &network{hosts: map[string]string{"h": peer(t, echo)}}, joined: make(chan stream.DirectionOwner, 1)}
	s := NewSOCKS(Config{Dialer: n, MaxConns: 1})
	s.quiet = 0
	at := start(t, s)
	greet := func() (net.Conn, error) {
		c := dialTCP(t, at)
		c.Write([]byte{5, 1, 0})
		_, err := io.ReadFull(c, make([]byte, 2))
		return c, err
	}
	c, err := greet()
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, request5(1, "h", 80)...)
	hear(t, c, ok5...)
	ends := <-n.joined
	if _, err := greet(); err == nil || n.cuts.Load() != 0 {
		t.Fatal("a connection whose program writes made room", err)
	}
	ends.Up(&cuts{nil, n, ends}, nil)
	if _, err := greet(); err != nil {
		t.Error("no room:", err)
	}
	if err := s.Close(); err != nil || n.cuts.Load() != 1 || s.count.evicted.Value() != 1 || s.count.refused.Value() != 1 {
		t.Errorf("%v; %d cut, %d evicted, %d refused", err, n.cuts.Load(), s.count.evicted.Value(), s.count.refused.Value())
	}
}

// far is the far end of a joined connection, which only counts.
type far struct {
	net.Conn
	read, written uint64
}

func (f *far) Bytes() (read, written uint64) { return f.read, f.written }

// TestQuietOnes: which joined connection makes room.
func TestQuietOnes(t *testing.T) {
	s := NewSOCKS(Config{Dialer: &network{}})
	defer s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Unix(1e9, 0)
	open, first, second := &joinedClient{far: &far{}}, &joinedClient{far: &far{}}, &joinedClient{far: &far{}}
	for _, t := range []*joinedClient{open, first, second} {
		s.conns[t] = struct{}{}
	}
	defer clear(s.conns)
	ended := func(t *joinedClient, at time.Time) {
		s.mu.Unlock()
		defer s.mu.Lock()
		s.sideEnded(t, at)
	}
	ended(second, now.Add(1))
	ended(first, now)
	for i, c := range []struct {
		at   time.Duration
		want *joinedClient
	}{{quietTime - 1, nil}, {quietTime, first}, {quietTime + 1, first}} {
		if got := s.quietLocked(now.Add(c.at)); got != c.want {
			t.Errorf("step %d: %p, not %p", i, got, c.want)
		}
	}
	first.far.(*far).read++
	if s.quietLocked(now.Add(2*quietTime)) != second {
		t.Error("one on which bytes came makes room")
	}
	second.far.(*far).written++
	if s.quietLocked(now.Add(3*quietTime-1)) != nil {
		t.Error("one on which bytes went makes room")
	}
	if s.quietLocked(now.Add(3*quietTime)) != first {
		t.Error("one that is quiet again stays")
	}
	ended(&joinedClient{far: nil}, now) // it does not count, and is never quiet
}
