package channel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
)

// stagger is how long one address of a relay may take before the next is
// tried beside it.
const stagger = 1500 * time.Millisecond

// attemptTimeout bounds an attempt, however many wait for it: who comes late must
// not keep a relay's silence alive for those who come later.
const attemptTimeout = time.Minute

// attempt is a channel being opened. It belongs to all who wait for it, and ends
// when the last of them has gone: whoever came first must not decide for the
// others.
type attempt struct {
	key     string
	cancel  context.CancelFunc
	waiting int // guarded by the manager's mu

	done chan struct{} // closed once the following are set
	ch   *Channel
	err  error
}

// attemptKey tells attempts apart. Who names a relay with another address, where
// nobody answers, must not keep those waiting who name the right one.
func attemptKey(t *linkspec.Target) string {
	b := append(t.RSA[:], t.Ed[:]...)
	for _, a := range t.Reach() {
		b = a.AppendTo(append(b, ' '))
	}
	return string(b)
}

// Get returns an open channel to the target, opening one if there is none.
func (m *Manager) Get(ctx context.Context, t linkspec.Target) (*Channel, error) {
	ch, a, err := m.join(ctx, t)
	if a == nil {
		return ch, err
	}
	select {
	case <-a.done:
		return a.ch, a.err
	case <-ctx.Done():
		m.leave(a)
		return nil, fault.New(fault.Timeout, "open channel: %w", context.Cause(ctx))
	}
}

// join returns an open channel, or an attempt at one, which the caller is to wait
// for, or to leave.
func (m *Manager) join(ctx context.Context, t linkspec.Target) (*Channel, *attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, fault.New(fault.Closed, "open channel: shutting down")
	}
	if ch := m.findLocked(&t); ch != nil {
		return ch, nil, nil
	}
	a := m.opening[attemptKey(&t)]
	if a == nil {
		a = m.startLocked(ctx, t)
	}
	a.waiting++
	return nil, a, nil
}

// startLocked starts an attempt, which has what ctx carries but not its end. The
// caller holds mu.
func (m *Manager) startLocked(ctx context.Context, t linkspec.Target) *attempt {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	a := &attempt{key: attemptKey(&t), cancel: cancel, done: make(chan struct{})}
	m.opening[a.key] = a
	m.attempts.Go(panics.Contain(m.cfg.Log, nil, func() { m.run(ctx, t, a) }))
	return a
}

func (m *Manager) run(ctx context.Context, t linkspec.Target, a *attempt) {
	defer a.cancel()
	defer close(a.done)
	defer m.end(a)
	defer panics.Recover(m.cfg.Log, func(err error) { a.ch, a.err = nil, err })
	var l *Link
	if l, a.err = m.connect(ctx, &t); a.err == nil {
		a.ch, a.err = m.Adopt(l)
	}
}

func (m *Manager) end(a *attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(a)
}

// leave takes one who waits off an attempt. The last one ends it, and who comes
// now starts another.
func (m *Manager) leave(a *attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.cancel()
		m.endLocked(a)
	}
}

func (m *Manager) endLocked(a *attempt) {
	if m.opening[a.key] == a {
		delete(m.opening, a.key)
	}
}

// connect tries the target's addresses, each beside the ones before it.
func (m *Manager) connect(ctx context.Context, t *linkspec.Target) (*Link, error) {
	addrs := t.Reach()
	if len(addrs) == 0 {
		return nil, fault.New(fault.Directory, "open channel: the relay has no address")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		l   *Link
		err error
	}
	results := make(chan result, len(addrs))
	launched, ended := 0, 0
	launch := func() {
		addr := addrs[launched]
		launched++
		m.attempts.Go(func() {
			defer panics.Recover(m.cfg.Log, func(err error) { results <- result{nil, err} })
			l, err := m.connectOne(ctx, t.RelayID, addr)
			results <- result{l, err}
		})
	}
	launch()
	var first error
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	for {
		select {
		case r := <-results:
			ended++
			if r.err == nil {
				cancel()
				late := launched - ended
				m.attempts.Go(func() { // what else succeeds comes too late
					defer panics.Recover(m.cfg.Log, nil)
					for range late {
						if r := <-results; r.l != nil {
							_ = r.l.Conn.NetConn().Close()
						}
					}
				})
				return r.l, nil
			}
			if first == nil {
				first = r.err
			}
			if launched < len(addrs) && ctx.Err() == nil {
				launch()
			} else if ended == launched {
				return nil, first
			}
		case <-timer.C:
			if launched < len(addrs) {
				launch()
				timer.Reset(stagger)
			}
		}
	}
}

func (m *Manager) connectOne(ctx context.Context, want ident.RelayID, addr netip.AddrPort) (*Link, error) {
	raw, err := m.dial(ctx, addr)
	if err != nil {
		kind := fault.Network
		switch {
		case ctx.Err() != nil:
			kind = fault.Timeout
		case fault.Is(err, fault.Resource):
			kind = fault.Resource // ours, not the relay's
		}
		return nil, fault.New(kind, "open channel: connect: %w", hideAddr(err))
	}
	l, err := Connect(ctx, raw, want, addr, m.link.Load())
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return l, nil
}

// hideAddr drops the address that the net package puts into its errors.
func hideAddr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
