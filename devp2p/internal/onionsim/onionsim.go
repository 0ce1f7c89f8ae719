// Package onionsim has onions without Tor, in memory, for tests: they connect at once,
// and can be taken away. Connections are pipes, so that tests can run in virtual time.
package onionsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/chivenet/chive"

	"github.com/chivenet/chive/devp2p"
)

// ErrAway says that an onion does not answer.
var ErrAway = errors.New("onionsim: the onion is away")

// Network connects onions. Its methods may be called from any goroutine.
type Network struct {
	mu       sync.Mutex
	services map[string]*listener     // guarded by mu: by "address:port"
	keys     map[string]devp2p.Onion3 // guarded by mu: by directory
	away     map[string]bool          // guarded by mu: addresses
	hang     map[string]bool          // guarded by mu: addresses that never answer
	delay    time.Duration            // guarded by mu: of each dial
	nodes    int                      // guarded by mu
	dials    []string                 // guarded by mu
}

// New returns a network without onions.
func New() *Network {
	return &Network{services: map[string]*listener{}, keys: map[string]devp2p.Onion3{}, away: map[string]bool{}, hang: map[string]bool{}}
}

// SetAway takes an onion away, or brings it back: dials fail at once.
func (nw *Network) SetAway(o devp2p.Onion3, away bool) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.away[o.Addr()] = away
}

// SetHang has dials of an onion wait until their context ends.
func (nw *Network) SetHang(o devp2p.Onion3, hang bool) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.hang[o.Addr()] = hang
}

// SetDelay is how long each dial takes.
func (nw *Network) SetDelay(d time.Duration) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.delay = d
}

// Dials returns the isolation keys of all dials, in order.
func (nw *Network) Dials() []string {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return append([]string(nil), nw.dials...)
}

// Node returns the onions of one more node. Its dials with one isolation key share a
// circuit.
func (nw *Network) Node() devp2p.Onions {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.nodes++
	return &node{nw: nw, number: nw.nodes}
}

type node struct {
	nw     *Network
	number int

	mu   sync.Mutex
	open []*listener // guarded by mu
}

func (n *node) DialOnion(ctx context.Context, addr, isolation string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	nw := n.nw
	nw.mu.Lock()
	l, delay, hang := nw.services[addr], nw.delay, nw.hang[host]
	nw.dials = append(nw.dials, isolation)
	if nw.away[host] {
		l = nil
	}
	nw.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if delay > 0 {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(delay):
		}
	}
	if l == nil {
		return nil, ErrAway
	}
	mine, theirs := net.Pipe()
	select {
	case l.conns <- circuitConn{theirs, fmt.Sprintf("%d/%s", n.number, isolation)}:
		return mine, nil
	case <-l.done:
		return nil, ErrAway
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (n *node) ListenOnion(_ context.Context, keyDir string, port int) (devp2p.OnionListener, error) {
	nw := n.nw
	nw.mu.Lock()
	defer nw.mu.Unlock()
	o, ok := nw.keys[keyDir]
	if !ok || keyDir == "" {
		key, err := chive.NewOnionKey()
		if err != nil {
			return nil, err
		}
		o = devp2p.Onion3(key.Address())
		nw.keys[keyDir] = o
	}
	l := &listener{nw: nw, onion: o, addr: fmt.Sprintf("%s:%d", o, port), conns: make(chan net.Conn), done: make(chan struct{})}
	if nw.services[l.addr] != nil {
		return nil, errors.New("onionsim: the onion is hosted already")
	}
	nw.services[l.addr] = l
	n.mu.Lock()
	n.open = append(n.open, l)
	n.mu.Unlock()
	return l, nil
}

func (n *node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.open {
		l.Close()
	}
	return nil
}

type listener struct {
	nw    *Network
	onion devp2p.Onion3
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.nw.mu.Lock()
		delete(l.nw.services, l.addr)
		l.nw.mu.Unlock()
	})
	return nil
}

func (l *listener) Addr() net.Addr                      { return addr(l.addr) }
func (l *listener) Onion() devp2p.Onion3                { return l.onion }
func (l *listener) WaitPublished(context.Context) error { return nil }

type addr string

func (addr) Network() string  { return "onionsim" }
func (a addr) String() string { return string(a) }

type circuitConn struct {
	net.Conn
	circuit string
}

func (c circuitConn) Circuit() string { return c.circuit }
