package site

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxOpen bounds the open connections of a server: each takes some tens of kilobytes.
	MaxOpen = 512
	// stalled is how long nothing has moved on a connection that may be closed for a new one.
	stalled = 2 * time.Second
)

// crowd bounds the open connections of a listener. If there are too many, a new one takes the place of the
// one on which nothing has moved for the longest time: it is idle, or its client reads slowly on purpose. One
// client has at most a quarter of the places that are left.
type crowd struct {
	net.Listener
	client func(net.Conn) uint64

	mu    sync.Mutex
	conns map[*member]struct{} // guarded by mu
	of    map[uint64]int       // guarded by mu: connections of each client
}

func newCrowd(l net.Listener, client func(net.Conn) uint64) *crowd {
	return &crowd{Listener: l, client: client, conns: map[*member]struct{}{}, of: map[uint64]int{}}
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	crowd  *crowd
	client uint64
	moved  atomic.Int64 // when bytes came or went last, in nanoseconds since began
	began  time.Time
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

// enter makes room for a connection; nil: there is none.
func (l *crowd) enter(c net.Conn) *member {
	m := &member{Conn: c, crowd: l, client: l.client(c), began: time.Now()}
	out, ok := l.place(m)
	if !ok {
		return nil
	}
	if out != nil {
		out.Conn.Close() // the server then closes the member, which is out already
	}
	return m
}

// place finds a place for a member, perhaps that of another one, which is out then.
func (l *crowd) place(m *member) (out *member, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := MaxOpen - len(l.conns)
	if l.of[m.client] >= 1+free/4 {
		return nil, false
	}
	if free == 0 {
		for other := range l.conns {
			if out == nil || other.rests() > out.rests() {
				out = other
			}
		}
		if out.rests() < stalled {
			return nil, false
		}
		l.leaveLocked(out)
	}
	l.conns[m] = struct{}{}
	l.of[m.client]++
	return out, true
}

func (l *crowd) leave(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(m)
}

func (l *crowd) leaveLocked(m *member) {
	if _, ok := l.conns[m]; !ok {
		return
	}
	delete(l.conns, m)
	if l.of[m.client]--; l.of[m.client] == 0 {
		delete(l.of, m.client)
	}
}

// rests returns for how long nothing has moved.
func (m *member) rests() time.Duration {
	return time.Since(m.began) - time.Duration(m.moved.Load())
}

func (m *member) move(n int) {
	if n > 0 {
		m.moved.Store(int64(time.Since(m.began)))
	}
}

// Read implements net.Conn.
func (m *member) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.move(n)
	return n, err
}

// piece is how many bytes a client has to take in writeTime.
const piece = 32 << 10

// Write implements net.Conn. A client that takes too long for a piece of it has lost its connection.
func (m *member) Write(p []byte) (n int, err error) {
	for {
		if err := m.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return n, err
		}
		k, err := m.Conn.Write(p[n:min(len(p), n+piece)])
		m.move(k)
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Close implements net.Conn.
func (m *member) Close() error {
	m.crowd.leave(m)
	return m.Conn.Close()
}
