package ftebench

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// The first byte of a connection, which selects the backend's service.
const (
	askSink   = 'S' // receives bytes until the end, and counts them
	askSource = 'D' // sends bytes until it is closed
	askEcho   = 'E' // sends back all bytes
)

// backend is the service to which the proxies' server connects.
type backend struct {
	l    net.Listener
	sunk atomic.Int64 // bytes that sinks took

	mu    sync.Mutex
	conns map[net.Conn]struct{} // that are being served
}

func newBackend() (*backend, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Network, "listening: %w", err)
	}
	b := &backend{l: l, conns: make(map[net.Conn]struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go b.serve(c)
		}
	}()
	return b, nil
}

func (b *backend) addr() string { return b.l.Addr().String() }

func (b *backend) close() { b.l.Close() }

// serve runs the service that a connection asks for. After an error it closes
// the connection, and the other end notices.
func (b *backend) serve(c net.Conn) {
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	defer func() {
		c.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	var ask [1]byte
	if _, err := io.ReadFull(c, ask[:]); err != nil {
		return
	}
	buf := make([]byte, chunk)
	switch ask[0] {
	case askSink:
		drain(c, buf, &b.sunk)
		c.Write(ask[:])
	case askSource:
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	case askEcho:
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// cut ends every connection at once, and waits until all have ended. The
// connections are cut at the receiving end, so that bytes that the proxies still
// hold do not disturb the next measurement.
func (b *backend) cut(ctx context.Context) error {
	for late := time.Now().Add(6 * pingTime); ; {
		b.mu.Lock()
		left := len(b.conns)
		for c := range b.conns {
			abort(c)
		}
		b.mu.Unlock()
		switch {
		case left == 0:
			return nil
		case time.Now().After(late):
			return fault.New(fault.Timeout, "%d connections of the last measurement don't end", left)
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// abort closes a connection and drops its unsent bytes.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0) // an error only means that it is closed already
	}
	c.Close()
}

// drain reads to the end and counts.
func drain(c net.Conn, buf []byte, count *atomic.Int64) {
	for {
		n, err := c.Read(buf)
		count.Add(int64(n))
		if err != nil {
			return
		}
	}
}
