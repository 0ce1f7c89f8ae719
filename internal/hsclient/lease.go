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

// meeting is a circuit to a service, or the attempt to get one. The streams with
// its key share it.
type meeting struct {
	c      *Client
	key    meetKey
	cancel context.CancelCauseFunc // of the attempt
	ready  chan struct{}           // closed when the attempt is over

	// guarded by c.mu, and constant once ready is closed
	circ Circuit
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
	m     *meeting
	ended atomic.Bool
}

// Circuit returns the circuit.
func (l *Lease) Circuit() Circuit { return l.m.circ }

// Hop returns the service's end of the circuit: streams are opened on it.
func (l *Lease) Hop() *circuit.Hop { return l.m.hop }

// Acquire returns a circuit to the service with an identity: one that streams of
// the key use already, or a new one. The caller must Release it. stable asks for
// relays that are good for long-lived streams.
func (c *Client) Acquire(ctx context.Context, id ident.Ed25519ID, key isolation.Key, stable bool) (*Lease, error) {
	m, err := c.enter(meetKey{id, key.Trim()}, stable)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		m.leave()
		return nil, fault.Ended(ctx, "onion service: %w", context.Cause(ctx))
	}
	if m.err != nil {
		m.leave()
		return nil, m.err
	}
	return &Lease{m: m}, nil
}

// Host returns host, a name of the service. Streams that give it the same name get one
// string, so that each does not hold its own.
func (l *Lease) Host(host string) string {
	l.m.c.mu.Lock()
	defer l.m.c.mu.Unlock()
	if l.m.host == "" {
		l.m.host = strings.Clone(host)
	}
	if l.m.host == host {
		return l.m.host
	}
	return host
}

// Release ends the lease, when the stream has ended. It may be called more than
// once.
func (l *Lease) Release() {
	if !l.ended.Swap(true) {
		l.m.leave()
	}
}

// Retire keeps new streams from the circuit, because this one failed on it.
func (l *Lease) Retire() { l.m.retire() }

// enter joins the meeting of a key, and begins one if there is none.
func (c *Client) enter(k meetKey, stable bool) (*meeting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	m := c.meets[k]
	if m == nil || m.overLocked() {
		m = c.beginLocked(k, stable)
	}
	m.users++
	if m.idle != nil {
		m.idle.Stop()
		m.idle = nil
	}
	return m, nil
}

// overLocked reports whether the meeting takes no streams.
func (m *meeting) overLocked() bool {
	switch {
	case m.retired || m.err != nil:
		return true
	case m.circ == nil:
		return false
	}
	select {
	case <-m.circ.Engine().Done():
		return true
	default:
		return false
	}
}

func (c *Client) beginLocked(k meetKey, stable bool) *meeting {
	m := &meeting{c: c, key: k, ready: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(c.ctx)
	m.cancel = cancel
	c.meets[k] = m
	h := c.historyLocked(k)
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { m.finish(nil, nil, err) })
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
		defer stop()
		m.finish(c.connect(ctx, h, stable))
	})
	return m
}

// finish takes the outcome of the attempt.
func (m *meeting) finish(circ Circuit, hop *circuit.Hop, err error) {
	wanted := m.settle(circ, hop, err)
	switch {
	case circ == nil:
	case !wanted:
		m.end()
	default:
		circ.Engine().OnClose(func(error) {
			// On another goroutine: what closes the circuit may hold the lock.
			go panics.Contain(m.c.cfg.Log, nil, func() { m.remove() })()
		})
	}
}

// settle stores the outcome, and reports whether anybody waits for it.
func (m *meeting) settle(circ Circuit, hop *circuit.Hop, err error) bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.circ, m.hop, m.err = circ, hop, err
	if err != nil {
		m.removeLocked()
	}
	close(m.ready)
	return m.users > 0 && !m.c.closed
}

func (m *meeting) remove() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.removeLocked()
}

func (m *meeting) removeLocked() {
	if m.c.meets[m.key] == m {
		delete(m.c.meets, m.key)
	}
}

// leave ends one use. An attempt that nobody waits for ends; a circuit without
// streams is kept for a while.
func (m *meeting) leave() {
	if m.left() {
		m.end()
	}
}

// left reports whether the meeting must end with this use.
func (m *meeting) left() bool {
	idle := m.c.cfg.Idle()
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.users--; m.users > 0 {
		return false
	}
	if m.circ == nil || m.retired || m.c.closed {
		m.retired = true
		m.removeLocked()
		return true
	}
	m.idle = time.AfterFunc(idle, panics.Contain(m.c.cfg.Log, nil, m.expire))
	return false
}

// expire closes a circuit that had no streams for a while.
func (m *meeting) expire() {
	if m.unused(false) {
		m.end()
	}
}

// retire keeps new streams from the circuit, and closes it when there are none.
func (m *meeting) retire() {
	if m.unused(true) {
		m.end()
	}
}

// unused reports whether there are no streams; then, or always, there will be no
// new ones.
func (m *meeting) unused(always bool) bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	unused := m.users == 0
	if unused || always {
		m.retired = true
		m.removeLocked()
	}
	return unused
}

// end ends the attempt, and closes its circuit.
func (m *meeting) end() {
	m.cancel(errClosed)
	m.c.mu.Lock()
	circ, idle := m.circ, m.idle
	m.c.mu.Unlock()
	if idle != nil {
		idle.Stop()
	}
	if circ != nil {
		circ.Close()
	}
}
