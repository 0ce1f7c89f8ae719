package userstack

import (
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// conn is a program's connection.
type conn struct {
	*gonet.TCPConn
	ep    tcpip.Endpoint
	queue *waiter.Queue
	from  net.Addr
}

// accept tells the program that its connection is open. The caller completes the request.
func accept(r *tcp.ForwarderRequest) (*conn, error) {
	queue := new(waiter.Queue)
	ep, err := r.CreateEndpoint(queue)
	if err != nil {
		return nil, wrong(err)
	}
	id := r.ID()
	from := &net.TCPAddr{IP: id.RemoteAddress.AsSlice(), Port: int(id.RemotePort)}
	return &conn{gonet.NewTCPConn(queue, ep), ep, queue, from}, nil
}

// RemoteAddr returns the program's address, also after the program has reset the connection.
func (c *conn) RemoteAddr() net.Addr { return c.from }

// onReset has f called when the program resets the connection: both its directions may wait for
// the network then, and would not notice. f must not wait. The caller calls end.
func (c *conn) onReset(f func()) (end func()) {
	check := func(waiter.EventMask) {
		if tcp.EndpointState(c.ep.State()) == tcp.StateError {
			f()
		}
	}
	e := waiter.NewFunctionEntry(waiter.EventErr|waiter.EventHUp, check)
	c.queue.EventRegister(&e)
	check(0) // it may have been before
	return func() { c.queue.EventUnregister(&e) }
}

// left waits until nothing is left of a connection that was closed, or until end is. A program that does not read makes
// this process keep what it was sent, also after both ends have said that no more comes.
func (c *conn) left(end <-chan struct{}) {
	gone := make(chan struct{}, 1)
	check := func(waiter.EventMask) {
		switch tcp.EndpointState(c.ep.State()) {
		case tcp.StateClose, tcp.StateError, tcp.StateTimeWait:
			select {
			case gone <- struct{}{}:
			default:
			}
		}
	}
	e := waiter.NewFunctionEntry(waiter.EventErr|waiter.EventHUp, check)
	c.queue.EventRegister(&e)
	defer c.queue.EventUnregister(&e)
	check(0)
	select {
	case <-gone:
	case <-end:
	}
}

// SetLinger is net.TCPConn's: with 0, Close resets the connection.
func (c *conn) SetLinger(sec int) error {
	c.ep.SocketOptions().SetLinger(tcpip.LingerOption{Enabled: sec >= 0, Timeout: time.Duration(sec) * time.Second})
	return nil
}
