package fte

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// HTTP carries connections as real HTTP/1.1 messages (RFC 9112): the bodies of
// POST requests hold a client's bytes, the bodies of the responses hold a
// server's bytes, and the two alternate. The bytes are those of a Protocol in
// strict mode, so that every body is text of its language. HTTP proxies may stand
// between client and server, and each request may use another TCP connection.
const (
	httpBody     = 256 << 10             // most bytes of one body
	httpHold     = 50 * time.Millisecond // how long a response waits for bytes
	httpPoll     = 20 * time.Millisecond // a client's first pause when nothing happens
	httpPollMost = 2 * time.Second       // and its longest
	sessionLen   = 16
)

// HTTPIdle is the longest time that a session lives without requests, and the
// longest time that a connection lives while a request or an answer makes no
// progress.
const HTTPIdle = 2 * time.Minute

// HTTPHeader bounds the header of a request or an answer, in bytes.
// MaxHeaderBytes is the only bound on the header bytes that a net/http server
// keeps for unknown peers, and its default is a megabyte for each connection.
const HTTPHeader = 16 << 10

// httpQueue holds bytes between a pipe and the next message.
type httpQueue struct {
	mem    *account.Account // of a server's queue; the goroutine that takes bytes also releases them
	mu     sync.Mutex       // guards b and closed
	b      []byte
	closed bool
	some   chan struct{} // holds a token when there are bytes, or the end
	room   chan struct{} // holds a token after bytes were taken
}

func newHTTPQueue() *httpQueue {
	return &httpQueue{some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put appends p, and waits while the queue is full. It fails after end.
func (q *httpQueue) put(p []byte) (n int, err error) {
	for len(p) > 0 {
		q.mu.Lock()
		k := min(len(p), httpBody-len(q.b))
		if q.closed {
			q.mu.Unlock()
			signal(q.room) // for another writer
			return n, net.ErrClosed
		}
		q.b = append(q.b, p[:k]...)
		q.mu.Unlock()
		q.mem.Reserve(k)
		signal(q.some)
		n, p = n+k, p[k:]
		if len(p) > 0 {
			<-q.room
		}
	}
	return n, nil
}

func (q *httpQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.b) == 0
}

// end marks the end: no more bytes will come.
func (q *httpQueue) end() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.some)
	signal(q.room)
}

// take waits up to d for bytes. It returns all bytes that there are, and whether
// more can come.
func (q *httpQueue) take(ctx context.Context, d time.Duration) (b []byte, open bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		q.mu.Lock()
		b, open = q.b, !q.closed
		if len(b) > 0 || !open {
			q.b = nil
			q.mu.Unlock()
			signal(q.room)
			return b, open
		}
		q.mu.Unlock()
		select {
		case <-q.some:
		case <-t.C:
			return nil, true
		case <-ctx.Done():
			q.mu.Lock()
			b, open = q.b, false
			q.b = nil
			q.mu.Unlock()
			signal(q.room)
			return b, open
		}
	}
}
