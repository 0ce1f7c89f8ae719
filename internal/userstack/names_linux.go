package userstack

import (
	"context"
	"io"
	"net"
	"sync"

	"gvisor.dev/gvisor/pkg/log"
)

const (
	dnsPort = 53
	// dnsBuffer is what a connection to the name server can make this process hold of answers: each is small,
	// and gVisor keeps some hundred bytes more of each write.
	dnsBuffer = 8 << 10
)

// askers is the listener of the name server.
type askers struct {
	ctx   context.Context
	conns <-chan net.Conn
}

// Accept implements net.Listener.
func (l *askers) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with the stack.
func (l *askers) Close() error { return nil }

// Addr implements net.Listener. It says that no stranger reaches the name server.
func (l *askers) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: dnsPort} }

// asker is a connection to the name server.
type asker struct {
	*conn
	once   sync.Once
	closed chan struct{}
}

func (c *asker) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.conn.Close()
}

// answerNames has the name server serve a connection, which keeps its place until the program has
// read the answers.
func (s *Stack) answerNames(near *conn) {
	near.ep.SocketOptions().SetSendBufferSize(dnsBuffer, true)
	c := &asker{conn: near, closed: make(chan struct{})}
	select {
	case s.askers <- c:
		<-c.closed
	case <-s.ctx.Done():
		c.Close()
	}
	near.left(s.ctx.Done())
}

// silence keeps gVisor from writing to standard error, with addresses in its words.
var silence = sync.OnceFunc(func() { log.SetTarget(&log.Writer{Next: io.Discard}) })
