package channel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// Manager keeps the open channels of one process and reuses them: at most one
// is being opened to a relay's address at a time, and a circuit is put on one that is
// open already when its peer proved the identities that the target names.
type Manager struct {
	cfg  *Config
	link atomic.Pointer[LinkConfig]
	// dial opens the TCP connection, or whatever carries the link.
	dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

	mu      sync.Mutex                 // guards what follows
	open    map[ident.RSAID][]*Channel // to relays
	clients map[*Channel]struct{}      // from those that proved no identity
	opening map[string]*attempt        // by what attemptKey says
	closed  bool
}

// attempt is a channel being opened; who comes later waits for it.
type attempt struct {
	done chan struct{}
	ch   *Channel
	err  error
}

// attemptKey tells attempts apart. Who names a relay with another address, where
// nobody answers, must not keep those waiting who name the right one.
func attemptKey(t *linkspec.Target) string {
	b := append(t.RSA[:], t.Ed[:]...)
	for _, a := range t.Addrs {
		b = a.AppendTo(append(b, ' '))
	}
	return string(b)
}

// idleTimeout is how long a channel without circuits stays open (C tor: 3
// minutes and a random part).
const idleTimeout = 3 * time.Minute

// stagger is how long one address of a relay may take before the next is
// tried beside it.
const stagger = 1500 * time.Millisecond

// NewManager returns a manager that dials by dial.
func NewManager(cfg *Config, link *LinkConfig, dial func(context.Context, netip.AddrPort) (net.Conn, error)) *Manager {
	m := &Manager{cfg: cfg, dial: dial, open: map[ident.RSAID][]*Channel{}, opening: map[string]*attempt{}, clients: map[*Channel]struct{}{}}
	m.SetLink(link)
	return m
}

// SetLink changes how new links are made: a relay's link keys are short-lived.
func (m *Manager) SetLink(link *LinkConfig) { m.link.Store(link) }

// Accept makes a channel of a connection that was accepted on the ORPort. It
// closes raw when it fails.
func (m *Manager) Accept(ctx context.Context, raw net.Conn) (*Channel, error) {
	l, err := Accept(ctx, raw, m.link.Load())
	if err != nil {
		return nil, err
	}
	return m.Adopt(l)
}

// Get returns an open channel to the target, opening one if there is none.
func (m *Manager) Get(ctx context.Context, t linkspec.Target) (*Channel, error) {
	for {
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			return nil, fault.New(fault.Closed, "open channel: shutting down")
		}
		if ch := m.findLocked(&t); ch != nil {
			m.mu.Unlock()
			return ch, nil
		}
		key := attemptKey(&t)
		a := m.opening[key]
		if a == nil {
			a = &attempt{done: make(chan struct{})}
			m.opening[key] = a
			m.mu.Unlock()
			m.run(ctx, t, a)
			return a.ch, a.err
		}
		m.mu.Unlock()
		select {
		case <-a.done:
			// The other caller's time may have been up, not the relay's fault.
			if a.err == nil && t.Matches(a.ch.Peer()) {
				return a.ch, nil
			}
			if a.err != nil && !errors.Is(a.err, context.Canceled) && !errors.Is(a.err, context.DeadlineExceeded) {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "open channel: %w", context.Cause(ctx))
		}
	}
}

// findLocked returns the youngest open channel whose peer is the target, and
// which is canonical, or leads to an address of the target's (tor-spec,
// "Canonical connections"): nobody else may stand between.
func (m *Manager) findLocked(t *linkspec.Target) *Channel {
	list := m.open[t.RSA]
	for i := len(list) - 1; i >= 0; i-- {
		ch := list[i]
		if !t.Matches(ch.Peer()) || ch.Err() != nil {
			continue
		}
		if ch.link.Canonical(ch.RemoteAddr()) || ch.link.Initiator && slices.Contains(t.Addrs, ch.link.Dialled) {
			return ch
		}
	}
	return nil
}

func (m *Manager) run(ctx context.Context, t linkspec.Target, a *attempt) {
	l, err := m.connect(ctx, t)
	if err == nil {
		a.ch, err = m.Adopt(l)
	}
	a.err = err
	m.mu.Lock()
	delete(m.opening, attemptKey(&t))
	m.mu.Unlock()
	close(a.done)
}

// Adopt starts a channel on an authenticated link and keeps it for reuse.
func (m *Manager) Adopt(l *Link) (*Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = l.Conn.NetConn().Close()
		return nil, fault.New(fault.Closed, "open channel: shutting down")
	}
	if m.cfg.Opened != nil {
		m.cfg.Opened(l)
	}
	ch := Start(l, m.cfg)
	if l.PeerAuthenticated {
		id := ch.Peer().RSA
		m.open[id] = append(m.open[id], ch)
	} else {
		m.clients[ch] = struct{}{}
	}
	go func() {
		<-ch.Done()
		m.forget(ch)
	}()
	return ch, nil
}

func (m *Manager) forget(ch *Channel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, ch)
	id := ch.Peer().RSA
	list := m.open[id]
	for i, x := range list {
		if x == ch {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(m.open, id)
	} else {
		m.open[id] = list
	}
}

// connect tries the target's addresses, each beside the ones before it.
func (m *Manager) connect(ctx context.Context, t linkspec.Target) (*Link, error) {
	if len(t.Addrs) == 0 {
		return nil, fault.New(fault.Directory, "open channel: the relay has no address")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		l   *Link
		err error
	}
	results := make(chan result, len(t.Addrs))
	launched, ended := 0, 0
	launch := func() {
		addr := t.Addrs[launched]
		launched++
		go func() {
			l, err := m.connectOne(ctx, t.RelayID, addr)
			results <- result{l, err}
		}()
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
				go func() { // what else succeeds comes too late
					for range launched - ended {
						if r := <-results; r.l != nil {
							_ = r.l.Conn.NetConn().Close()
						}
					}
				}()
				return r.l, nil
			}
			if first == nil {
				first = r.err
			}
			if launched < len(t.Addrs) {
				launch()
			} else if ended == launched {
				return nil, first
			}
		case <-timer.C:
			if launched < len(t.Addrs) {
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
		if ctx.Err() != nil {
			kind = fault.Timeout
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

// Reap closes channels that had no circuit for three minutes. Call it now and
// then.
func (m *Manager) Reap() {
	now := m.cfg.Now()
	for _, ch := range m.Channels() {
		if n, since := ch.Circuits(); n == 0 && !since.IsZero() && now.Sub(since) > idleTimeout {
			ch.Close(fault.New(fault.Closed, "channel: idle"))
		}
	}
}

// Channels returns the open channels.
func (m *Manager) Channels() []*Channel {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Channel, 0, len(m.clients)+len(m.open))
	for _, l := range m.open {
		all = append(all, l...)
	}
	for ch := range m.clients {
		all = append(all, ch)
	}
	return all
}

// Close closes every channel and waits until they are closed.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	all := m.Channels()
	for _, ch := range all {
		ch.Close(fault.New(fault.Closed, "channel: shutting down"))
	}
	for _, ch := range all {
		<-ch.Done()
	}
}
