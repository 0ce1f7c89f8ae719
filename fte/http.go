package fte

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// HTTP carries connections as real HTTP/1.1 messages (RFC 9112): a client's
// bytes are bodies of POST requests, a server's are bodies of the responses,
// and the two alternate. What is inside is a Protocol in strict mode, so
// that every body is text of its language. Any HTTP proxy may stand between;
// the connection below need not be one and the same.
const (
	httpBody     = 256 << 10             // most bytes of one body
	httpHold     = 50 * time.Millisecond // how long a response waits for bytes
	httpPoll     = 20 * time.Millisecond // a client's first pause when nothing happens
	httpPollMost = 2 * time.Second       // and its longest
	sessionLen   = 16
)

// HTTPIdle is the time after which a session without requests ends, and a
// connection on which a request or an answer doesn't move.
const HTTPIdle = 2 * time.Minute

// HTTPHeader is what the header of a request or an answer may take, in bytes.
// Nothing bounds what a net/http server keeps of strangers' but its
// MaxHeaderBytes, and that has a default of a megabyte each.
const HTTPHeader = 16 << 10

// httpQueue holds bytes between a pipe and the next message.
type httpQueue struct {
	mem    *account.Account // of a server's: who takes bytes releases them
	mu     sync.Mutex
	b      []byte
	closed bool
	some   chan struct{} // holds a token when there is something to see
	room   chan struct{} // holds a token when bytes were taken
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

// end says that nothing more will come.
func (q *httpQueue) end() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.some)
	signal(q.room)
}

// take waits up to d for bytes and returns what there is, and whether more can
// come.
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
