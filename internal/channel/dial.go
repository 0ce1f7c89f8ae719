package channel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/race"
)

// stagger is how long one address of a relay may take before another attempt starts
// at the next address.
const stagger = 1500 * time.Millisecond

// attemptTimeout bounds an attempt, whatever callers wait for it. Otherwise late
// callers could keep an attempt at a silent relay alive, and make even later callers
// wait for it.
const attemptTimeout = time.Minute

// attempt is a channel that is being opened. It belongs to all callers that wait for
// it and ends when the last of them leaves (see Config.Patient), so that the first caller's context does
// not end it for the others.
type attempt struct {
	key     string
	cancel  context.CancelFunc
	waiting int // guarded by the manager's mu

	done chan struct{} // closed after the following are set
	ch   *Channel
	err  error
}

// ConnectError says that the relay could not be connected to: it refused the connection, did
// not answer in time, or did not prove who it is. Other errors of Get say nothing about it.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// attemptKey identifies attempts by identity and addresses. A caller that names a
// relay with a wrong address, where no relay answers, must not delay callers with
// the right address.
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
		err := fault.New(fault.Timeout, "open channel: %w", context.Cause(ctx))
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		if last := m.leave(a, late && m.cfg.Patient); last && late {
			return nil, &ConnectError{err} // while others wait, it is too early to say
		}
		return nil, err
	}
}

// join returns an open channel, or an attempt that the caller must wait for or
// leave.
func (m *Manager) join(ctx context.Context, t linkspec.Target) (*Channel, *attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errShutDown("open channel")
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

// startLocked starts an attempt. It keeps ctx's values but does not end with ctx.
// The caller holds mu.
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
	id := m.launched(&t)
	l, err := m.connect(ctx, &t)
	if err != nil {
		m.tell(id, LinkFailed, t.RSA, err)
	}
	switch {
	case err == nil:
		l.number = id
		m.tell(id, LinkOpened, l.Peer.RSA, nil)
		if a.ch, a.err = m.Adopt(l); a.err != nil {
			m.tell(id, LinkClosed, l.Peer.RSA, a.err)
		}
	case fault.Is(err, fault.Resource): // ours, not the relay's
		a.err = err
	default:
		a.err = &ConnectError{err}
	}
}

func (m *Manager) end(a *attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(a)
}

// leave removes one waiting caller from an attempt. The last one ends it unless it shall go on, and the
// next caller starts another.
func (m *Manager) leave(a *attempt, goesOn bool) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.waiting--
	if last = a.waiting == 0; last && !goesOn {
		a.cancel()
		m.endLocked(a)
	}
	return last
}

func (m *Manager) endLocked(a *attempt) {
	if m.opening[a.key] == a {
		delete(m.opening, a.key)
	}
}

// connect tries the target's addresses. Each attempt starts while the earlier ones
// go on, unless there is Config.Another.
func (m *Manager) connect(ctx context.Context, t *linkspec.Target) (*Link, error) {
	addrs := t.Reach()
	if len(addrs) == 0 {
		return nil, fault.New(fault.Directory, "open channel: the relay has no address")
	}
	if m.cfg.Another != nil {
		return m.connectInTurn(ctx, t.RelayID, addrs)
	}
	f := race.Field{Delay: stagger, After: time.After, Go: m.goAttempt, Log: m.cfg.Log}
	return race.First(ctx, f, len(addrs), func(ctx context.Context, i int) (*Link, error) {
		return m.connectOne(ctx, t.RelayID, addrs[i])
	}, func(late *Link) { _ = late.Conn.NetConn().Close() })
}

// connectInTurn tries one address after the other, IPv4 first, as long as the error allows another one.
func (m *Manager) connectInTurn(ctx context.Context, want ident.RelayID, addrs []netip.AddrPort) (l *Link, err error) {
	slices.SortStableFunc(addrs, func(a, b netip.AddrPort) int { return a.Addr().Unmap().BitLen() - b.Addr().Unmap().BitLen() })
	for _, a := range addrs {
		if l, err = m.connectOne(ctx, want, a); err == nil || ctx.Err() != nil || !m.cfg.Another(err) {
			break
		}
	}
	return l, err
}

// goAttempt starts what Close waits for.
func (m *Manager) goAttempt(f func()) { m.attempts.Go(panics.Contain(m.cfg.Log, nil, f)) }

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

// hideAddr removes the addresses that package net puts into its errors, which reach logs. It removes the
// operation, too, which the caller names.
func hideAddr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fault.Why(op.Err)
	}
	return err
}
