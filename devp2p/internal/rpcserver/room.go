package rpcserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What clients can hold, and for how long.
const (
	maxOpen   = 64               // connections
	maxSmall  = 128 << 10        // bytes of a request that needs no place among the large ones
	maxLarge  = 8                // larger requests that are read, or wait for their calls, at the same time
	maxCalls  = 8                // requests whose calls are made at the same time
	maxQueue  = 32               // requests that wait for a place, of each kind
	queueTime = 10 * time.Second // for which a request waits for a place
	readTime  = 10 * time.Second // for a request, from its first byte to its last
	writeTime = 10 * time.Second // for an answer
)

var errBusy = errors.New("the node is busy with other requests: try again")

// slots are places for requests, with a bounded queue.
type slots struct {
	free    chan struct{}
	waiting chan struct{}
}

func newSlots(n int) *slots {
	return &slots{make(chan struct{}, n), make(chan struct{}, maxQueue)}
}

// take waits for a place, which give gives back.
func (s *slots) take(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return errBusy
	}
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return errBusy
	}
}

func (s *slots) give() { <-s.free }

// read reads a request. Only large ones need a place, so that a client that sends a large
// one slowly is in nobody's way but theirs, for a short time.
func read(w http.ResponseWriter, r *http.Request, large *slots) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, MaxBody)
	head, err := io.ReadAll(io.LimitReader(body, maxSmall))
	if err != nil || len(head) < maxSmall {
		return head, err
	}
	if err := large.take(r.Context()); err != nil {
		return nil, err
	}
	defer large.give()
	rest, err := io.ReadAll(body)
	return append(head, rest...), err
}

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
	if len(l.conns) >= maxOpen {
		i := 0
		for i < len(l.conns) && l.conns[i].busy > 0 {
			i++
		}
		if i == len(l.conns) {
			return nil
		}
		l.conns[i].Conn.Close() // the server then closes the member, which is out already
		l.remove(l.conns[i])
	}
	m := &member{Conn: c, crowd: l}
	l.conns = append(l.conns, m)
	return m
}

// remove forgets a connection. mu is held.
func (l *crowd) remove(m *member) {
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
		m.crowd.remove(m)
	})
	return m.Conn.Close()
}

type memberKey struct{}

// remember puts the connection of a request into its context.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, memberKey{}, c)
}

// keep saves the connection of a request from making room for others, until done is called.
// Then it counts as new.
func keep(ctx context.Context) (done func()) {
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
				m.crowd.remove(m)
				m.crowd.conns = append(m.crowd.conns, m)
				return
			}
		}
	}
}
