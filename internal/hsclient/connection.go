package hsclient

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
)

// connectTimeout bounds an attempt to reach a service, as C tor's SocksTimeout does.
const connectTimeout = 2 * time.Minute

var (
	errConnectTimeout = errors.New("the onion service could not be reached in two minutes")
	errClosed         = fault.Also(fault.New(fault.Closed, "onion service: the client is closed"), net.ErrClosed)
)

// connection is a circuit to a service, or the attempt to get one. The streams with
// its key share it.
type connection struct {
	c      *Client
	key    connKey
	cancel context.CancelCauseFunc // of the attempt
	ready  chan struct{}           // closed when the attempt is over

	// guarded by c.mu, and constant once ready is closed
	circ OwnedCircuit
	hop  *circuit.Hop
	err  error

	// guarded by c.mu
	users   int // streams, and requests that wait
	retired bool
	host    string      // how the first stream named the service
	idle    *time.Timer // runs while there are no users
}

// Lease is the right to run one stream on a circuit to a service.
type Lease struct {
	conn  *connection
	ended atomic.Bool
}

// Circuit returns the circuit.
func (l *Lease) Circuit() OwnedCircuit { return l.conn.circ }

// Hop returns the service's end of the circuit: streams are opened on it.
func (l *Lease) Hop() *circuit.Hop { return l.conn.hop }

// Acquire returns a circuit to the service with an identity: one that streams of
// the key use already, or a new one. The caller must Release it. stable asks for
// relays that are good for long-lived streams.
func (c *Client) Acquire(ctx context.Context, id ident.Ed25519ID, key isolation.Key, stable bool) (*Lease, error) {
	conn, err := c.enter(connKey{id, key.Trim()}, stable)
	if err != nil {
		return nil, err
	}
	select {
	case <-conn.ready:
	case <-ctx.Done():
		conn.leave()
		return nil, fault.Ended(ctx, "onion service: %w", context.Cause(ctx))
	}
	if conn.err != nil {
		conn.leave()
		return nil, conn.err
	}
	return &Lease{conn: conn}, nil
}

// Host returns host, a name of the service. Streams that give it the same name get one
// string, so that each does not hold its own.
func (l *Lease) Host(host string) string {
	l.conn.c.mu.Lock()
	defer l.conn.c.mu.Unlock()
	if l.conn.host == "" {
		l.conn.host = strings.Clone(host)
	}
	if l.conn.host == host {
		return l.conn.host
	}
	return host
}

// Release ends the lease, when the stream has ended. It may be called more than
// once.
func (l *Lease) Release() {
	if !l.ended.Swap(true) {
		l.conn.leave()
	}
}

// Retire keeps new streams from the circuit, because this one failed on it.
func (l *Lease) Retire() { l.conn.retire() }

// enter counts a user of the connection with a key, and begins one if there is none.
func (c *Client) enter(k connKey, stable bool) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	conn := c.conns[k]
	if conn == nil || conn.overLocked() {
		conn = c.beginLocked(k, stable)
	}
	conn.users++
	if conn.idle != nil {
		conn.idle.Stop()
		conn.idle = nil
	}
	return conn, nil
}

// overLocked reports whether the connection takes no new streams.
func (conn *connection) overLocked() bool {
	switch {
	case conn.retired || conn.err != nil:
		return true
	case conn.circ == nil:
		return false
	}
	select {
	case <-conn.circ.Engine().Done():
		return true
	default:
		return false
	}
}

func (c *Client) beginLocked(k connKey, stable bool) *connection {
	conn := &connection{c: c, key: k, ready: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(c.ctx)
	conn.cancel = cancel
	c.conns[k] = conn
	h := c.historyLocked(k)
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { conn.finish(nil, nil, err) })
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
		defer stop()
		conn.finish(c.connect(ctx, h, stable))
	})
	return conn
}

// finish takes the outcome of the attempt.
func (conn *connection) finish(circ OwnedCircuit, hop *circuit.Hop, err error) {
	wanted := conn.setResult(circ, hop, err)
	switch {
	case circ == nil:
	case !wanted:
		conn.end()
	default:
		circ.Engine().OnClose(func(error) { conn.remove() })
	}
}

// setResult stores the outcome, and reports whether anybody waits for it.
func (conn *connection) setResult(circ OwnedCircuit, hop *circuit.Hop, err error) bool {
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	conn.circ, conn.hop, conn.err = circ, hop, err
	if err != nil {
		conn.removeLocked()
	}
	close(conn.ready)
	return conn.users > 0 && !conn.c.closed
}

func (conn *connection) remove() {
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	conn.removeLocked()
}

func (conn *connection) removeLocked() {
	if conn.c.conns[conn.key] == conn {
		delete(conn.c.conns, conn.key)
	}
}

// leave ends one use. An attempt that nobody waits for ends; a circuit without
// streams is kept for a while.
func (conn *connection) leave() {
	if conn.removeUser() {
		conn.end()
	}
}

// removeUser reports whether the connection must end, because this was the last user.
func (conn *connection) removeUser() bool {
	idle := conn.c.cfg.Idle()
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	if conn.users--; conn.users > 0 {
		return false
	}
	if conn.circ == nil || conn.retired || conn.c.closed {
		conn.retired = true
		conn.removeLocked()
		return true
	}
	conn.idle = time.AfterFunc(idle, panics.Contain(conn.c.cfg.Log, nil, conn.expire))
	return false
}

// expire closes a circuit that had no streams for a while.
func (conn *connection) expire() {
	if conn.unused(false) {
		conn.end()
	}
}

// retire keeps new streams from the circuit, and closes it when there are none.
func (conn *connection) retire() {
	if conn.unused(true) {
		conn.end()
	}
}

// unused reports whether there are no streams; then, or always, there will be no
// new ones.
func (conn *connection) unused(always bool) bool {
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	unused := conn.users == 0
	if unused || always {
		conn.retired = true
		conn.removeLocked()
	}
	return unused
}

// end ends the attempt, and closes its circuit.
func (conn *connection) end() {
	conn.cancel(errClosed)
	conn.c.mu.Lock()
	circ, idle := conn.circ, conn.idle
	conn.c.mu.Unlock()
	if idle != nil {
		idle.Stop()
	}
	if circ != nil {
		circ.Close()
	}
}
