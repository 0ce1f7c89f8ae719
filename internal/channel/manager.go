package channel

import (
	"context"
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

// Manager keeps the open channels of one process and reuses them: it opens at most
// one channel to a target at a time, and reuses an open channel if its peer proved
// the identities that the target names.
type Manager struct {
	cfg  *Config
	link atomic.Pointer[LinkConfig]
	// links counts the links that this process has opened.
	links atomic.Uint64
	// dial opens the TCP connection, or another connection that carries the link.
	dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

	mu      sync.Mutex                 // guards what follows
	open    map[ident.RSAID][]*Channel // to relays
	clients map[*Channel]struct{}      // from peers that proved no identity
	opening map[string]*attempt        // by attemptKey
	closed  bool

	attempts sync.WaitGroup // counts their goroutines; Add is called under mu and never after closed is set
}

// NewManager returns a manager that opens connections with dial.
func NewManager(cfg *Config, link *LinkConfig, dial func(context.Context, netip.AddrPort) (net.Conn, error)) *Manager {
	m := &Manager{cfg: cfg, dial: dial, open: map[ident.RSAID][]*Channel{}, opening: map[string]*attempt{}, clients: map[*Channel]struct{}{}}
	m.SetLink(link)
	return m
}

// SetLink replaces the configuration of new links. A relay calls it because its
// link keys are short-lived.
func (m *Manager) SetLink(link *LinkConfig) { m.link.Store(link) }

// Accept makes a channel of a connection that the ORPort accepted. It closes raw on
// failure.
func (m *Manager) Accept(ctx context.Context, raw net.Conn) (*Channel, error) {
	l, err := Accept(ctx, raw, m.link.Load())
	if err != nil {
		return nil, err
	}
	return m.Adopt(l)
}

// Find returns an open channel to the target, or nil.
func (m *Manager) Find(t linkspec.Target) *Channel {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.findLocked(&t)
}

// findLocked returns the youngest open channel whose peer is the target. The
// channel must be canonical, or lead to one of the target's addresses (tor-spec,
// "Canonical connections"), so that no other host can stand between.
func (m *Manager) findLocked(t *linkspec.Target) *Channel {
	list := m.open[t.RSA]
	for i := len(list) - 1; i >= 0; i-- {
		ch := list[i]
		if !t.Matches(ch.Peer()) || !ch.link.Canonical(ch.RemoteAddr()) && !(ch.link.Initiator && slices.Contains(t.Addrs, ch.link.Dialled)) {
			continue
		}
		if !ch.old(m.cfg.Now()) && ch.lastIn.Load() > ch.doubt.Load() && ch.keep() {
			return ch
		}
	}
	return nil
}

// Unanswered says that the peer did not answer, in good time, what it was asked at a time. If
// nothing has come since the first such question, and that was at least patience ago, the
// network has probably changed under the link, which TCP finds out after a quarter of an hour:
// until something comes, the manager does not give the channel to anybody, and opens another
// one instead.
func (ch *Channel) Unanswered(asked time.Time, patience time.Duration) {
	now, in := ch.cfg.Now(), ch.lastIn.Load()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.unanswered.IsZero() || ch.unanswered.UnixNano() < in { // something came since
		ch.unanswered = asked
	}
	if now.Sub(ch.unanswered) >= patience {
		ch.doubt.Store(ch.unanswered.UnixNano())
	}
}

// keep reports whether the channel is open. The time without circuits begins anew: the
// caller is about to open one.
func (ch *Channel) keep() bool {
	now := ch.cfg.Now()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(ch.circs) == 0 {
		ch.restLocked(now)
	}
	return !ch.closed
}

// Adopt starts a channel on an authenticated link and keeps it for reuse.
func (m *Manager) Adopt(l *Link) (*Channel, error) {
	ch, err := m.adopt(l)
	if err == nil && m.cfg.Opened != nil {
		m.cfg.Opened(l)
	}
	return ch, err
}

func (m *Manager) adopt(l *Link) (*Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = l.Conn.NetConn().Close()
		return nil, errShutDown("open channel")
	}
	ch := start(l, m.cfg, m)
	if l.PeerAuthenticated {
		id := ch.Peer().RSA
		m.open[id] = append(m.open[id], ch)
	} else {
		m.clients[ch] = struct{}{}
	}
	return ch, nil
}

// forget runs on the last goroutine of a channel, which holds no lock.
func (m *Manager) forget(ch *Channel) {
	m.drop(ch)
	m.tell(ch.link.number, LinkClosed, ch.Peer().RSA, ch.Err())
}

func (m *Manager) drop(ch *Channel) {
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

// Silence has all channels write nothing more, and opens no other: Close follows soon. What
// circuits and streams would still say of their ends says when each was the last of its kind, and C
// tor says none of it.
func (m *Manager) Silence() {
	m.mu.Lock()
	m.closed = true
	for _, a := range m.opening {
		a.cancel()
	}
	m.mu.Unlock()
	for _, ch := range m.Channels() {
		ch.silence()
	}
}

// Close gives up all attempts, closes every channel, and waits until all of them
// have ended.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for _, a := range m.opening {
		a.cancel()
	}
	m.mu.Unlock()
	m.attempts.Wait()
	all := m.Channels()
	for _, ch := range all {
		ch.Close(errShutDown("channel"))
	}
	for _, ch := range all {
		<-ch.Done()
	}
}

// errShutDown is the error of what needs a manager that its owner has closed.
func errShutDown(what string) error {
	return fault.Also(fault.New(fault.Closed, "%s: shutting down", what), net.ErrClosed)
}
