package memconn

import (
	"net"
	"net/netip"
	"sync"
)

// Listener accepts connections at an address: it is a net.Listener.
type Listener struct {
	addr   netip.AddrPort
	closed func()
	conns  chan net.Conn

	mu   sync.Mutex // guards what follows; held while a connection is offered
	over bool
	done chan struct{}
}

// Listen returns a listener at which so many connections may wait to be accepted. closed is called once, when it is
// closed; nil: nothing is called.
func Listen(addr netip.AddrPort, backlog int, closed func()) *Listener {
	return &Listener{addr: addr, closed: closed, conns: make(chan net.Conn, backlog), done: make(chan struct{})}
}

// Offer gives the listener a connection. It is false if the listener is closed, or if as many as may wait do: then the
// connection is the caller's.
func (l *Listener) Offer(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	select {
	case l.conns <- c:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	case c := <-l.conns:
		return c, nil
	}
}

// Close ends the listener, and the connections that were not accepted yet.
func (l *Listener) Close() error {
	if !l.end() {
		return nil
	}
	if l.closed != nil {
		l.closed()
	}
	for len(l.conns) > 0 { // after end, nobody adds to them
		select {
		case c := <-l.conns:
			_ = c.Close()
		default: // Accept has taken it
		}
	}
	return nil
}

// end is false if the listener was closed before.
func (l *Listener) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	close(l.done)
	return true
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }
