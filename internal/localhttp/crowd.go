package localhttp

import (
	"context"
	"net"
	"sync"
)

// MaxOpen bounds the open connections of a port.
const MaxOpen = 64

// crowd bounds the open connections of a listener. A new one takes the place of the one
// that is there for the longest time without a call: local programs send their requests at
// once, so this is one that is idle, or slow.
type crowd struct {
	net.Listener

	mu    sync.Mutex
	conns []*member // guarded by mu: the oldest is the first
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	crowd *crowd
	once  sync.Once
	busy  int // guarded by crowd.mu: calls
}

// Accept implements net.Listener.
func (l *crowd) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if m := l.enter(c); m != nil {
			return m, nil
		}
		c.Close()
	}
}

// enter makes room for a connection; nil: all others have calls.
func (l *crowd) enter(c net.Conn) *member {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= MaxOpen {
		i := 0
		for i < len(l.conns) && l.conns[i].busy > 0 {
			i++
		}
		if i == len(l.conns) {
			return nil
		}
		l.conns[i].Conn.Close() // the server then closes the member, which is out already
		l.removeLocked(l.conns[i])
	}
	m := &member{Conn: c, crowd: l}
	l.conns = append(l.conns, m)
	return m
}

// removeLocked forgets a connection.
func (l *crowd) removeLocked(m *member) {
	for i, other := range l.conns {
		if other == m {
			l.conns = append(l.conns[:i], l.conns[i+1:]...)
			return
		}
	}
}

// Close implements net.Conn.
func (m *member) Close() error {
	m.once.Do(func() {
		m.crowd.mu.Lock()
		defer m.crowd.mu.Unlock()
		m.crowd.removeLocked(m)
	})
	return m.Conn.Close()
}

type memberKey struct{}

// remember puts the connection of a request into its context.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, memberKey{}, c)
}

// Keep saves the connection of a request from making room for others, until done is called.
// Then it counts as new.
func Keep(ctx context.Context) (done func()) {
	m, ok := ctx.Value(memberKey{}).(*member)
	if !ok {
		return func() {}
	}
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	m.busy++
	return func() {
		m.crowd.mu.Lock()
		defer m.crowd.mu.Unlock()
		m.busy--
		for _, other := range m.crowd.conns {
			if other == m {
				m.crowd.removeLocked(m)
				m.crowd.conns = append(m.crowd.conns, m)
				return
			}
		}
	}
}
