package appearance

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// maxDelayed bounds the bytes that are on their way on a line.
const maxDelayed = 4 << 20

// line writes to a connection what it gets, a time later and in its order.
type line struct {
	delay time.Duration
	ended chan struct{} // closed when all is written, or cannot be

	mu     sync.Mutex // guards what follows
	change sync.Cond
	queue  []delayed
	bytes  int
	closed bool
	err    error
}

type delayed struct {
	due time.Time
	b   []byte
}

// noClose leaves the connection open.
type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }

// later returns a writer to a connection, whose bytes arrive after the delay. Close waits for them, and leaves the connection
// open.
func later(to net.Conn, delay time.Duration) io.WriteCloser {
	if delay <= 0 {
		return noClose{to}
	}
	l := &line{delay: delay, ended: make(chan struct{})}
	l.change.L = &l.mu
	go panics.Contain(nil, nil, func() { l.run(to) })()
	return l
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && l.bytes+len(b) > maxDelayed && len(l.queue) > 0 {
		l.change.Wait()
	}
	if l.err != nil {
		return 0, l.err
	}
	l.queue = append(l.queue, delayed{time.Now().Add(l.delay), slices.Clone(b)})
	l.bytes += len(b)
	l.change.Broadcast()
	return len(b), nil
}

// Close waits until all is written.
func (l *line) Close() error {
	l.mu.Lock()
	l.closed = true
	l.change.Broadcast()
	l.mu.Unlock()
	<-l.ended
	return nil
}

func (l *line) run(to net.Conn) {
	defer close(l.ended)
	for {
		next, ok := l.next()
		if !ok {
			return
		}
		time.Sleep(time.Until(next.due))
		_, err := to.Write(next.b)
		l.mu.Lock()
		l.bytes -= len(next.b)
		l.err = err
		l.change.Broadcast()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *line) next() (d delayed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.change.Wait()
	}
	if len(l.queue) == 0 {
		return d, false
	}
	d, l.queue = l.queue[0], l.queue[1:]
	return d, true
}
