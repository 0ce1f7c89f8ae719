package devp2p

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/chivenet/chive"
)

// Onions reaches and hosts onion services.
type Onions interface {
	// DialOnion connects to "ADDRESS.onion:PORT", and to nothing else. Connections with
	// different isolation keys share no circuit; those with "" may share one.
	DialOnion(ctx context.Context, addr, isolation string) (net.Conn, error)
	// ListenOnion opens an onion service at a virtual port. Its key is kept in the
	// directory keyDir; empty: it has a new key, which ends with the listener. ctx bounds
	// the start only.
	ListenOnion(ctx context.Context, keyDir string, port int) (OnionListener, error)
	// Close closes the listeners.
	Close() error
}

// OnionListener is an onion service that runs. Its address is known at once. If its
// connections tell which circuit they came over, they are CircuitConns.
type OnionListener interface {
	net.Listener
	// Onion returns the address.
	Onion() Onion3
	// WaitPublished waits until clients can find the service.
	WaitPublished(ctx context.Context) error
}

// CircuitConn is a connection to an onion service that tells which circuit it came
// over. Connections over one circuit are of one client.
type CircuitConn interface {
	net.Conn
	// Circuit returns a name for the circuit, which is unique while the service runs.
	Circuit() string
}

// Embedded uses a Chive client in this program. The client stays the caller's: Close
// closes the listeners only.
func Embedded(c *chive.Client) Onions { return &embedded{client: c} }

type embedded struct {
	client *chive.Client

	mu        sync.Mutex
	listeners map[*embeddedListener]bool // guarded by mu
	closed    bool                       // guarded by mu
}

func (e *embedded) DialOnion(ctx context.Context, addr, isolation string) (net.Conn, error) {
	if err := checkOnionAddr(addr); err != nil {
		return nil, err
	}
	if isolation != "" {
		ctx = chive.WithIsolation(ctx, isolation)
	}
	return e.client.DialContext(ctx, "tcp", addr)
}

// checkOnionAddr refuses everything that is no onion: Onions must not reach an address
// by an exit.
func checkOnionAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("devp2p: an onion to dial: %w", err)
	}
	if _, err := ParseOnion3(host); err != nil {
		return fmt.Errorf("devp2p: an onion to dial: %w", err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("devp2p: an onion to dial: port %q is not from 1 to 65535", port)
	}
	return nil
}

func (e *embedded) ListenOnion(ctx context.Context, keyDir string, port int) (OnionListener, error) {
	l, err := e.client.Listen(ctx, chive.OnionConfig{Name: "devp2p", KeyDir: keyDir, Ports: []int{port}})
	if err != nil {
		return nil, err
	}
	out := &embeddedListener{OnionListener: l, owner: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		l.Close()
		return nil, net.ErrClosed
	}
	if e.listeners == nil {
		e.listeners = map[*embeddedListener]bool{}
	}
	e.listeners[out] = true
	return out, nil
}

func (e *embedded) Close() error {
	e.mu.Lock()
	open := e.listeners
	e.listeners, e.closed = nil, true
	e.mu.Unlock()
	var first error
	for l := range open {
		if err := l.OnionListener.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

type embeddedListener struct {
	*chive.OnionListener
	owner *embedded
}

func (l *embeddedListener) Onion() Onion3 { return Onion3(l.Address()) }

func (l *embeddedListener) Accept() (net.Conn, error) {
	c, err := l.OnionListener.Accept()
	if err != nil {
		return nil, err
	}
	return circuitConn{c.(*chive.OnionConn)}, nil
}

func (l *embeddedListener) Close() error {
	l.owner.mu.Lock()
	delete(l.owner.listeners, l)
	l.owner.mu.Unlock()
	return l.OnionListener.Close()
}

// circuitConn gives a chive.OnionConn the method of CircuitConn.
type circuitConn struct{ *chive.OnionConn }

func (c circuitConn) Circuit() string { return strconv.FormatUint(c.OnionConn.Circuit(), 10) }
