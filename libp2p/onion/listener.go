package onion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Listen opens the onion service at an address, which must be that of the key in
// Config.Onion. Peers can connect when [WaitPublished] has returned. A key has one listener
// at a time. When it closes, its connections end.
func (t *Transport) Listen(laddr ma.Multiaddr) (transport.Listener, error) {
	addr, err := hostPort(laddr)
	if err != nil {
		return nil, err
	}
	cfg := t.cfg.Onion
	if cfg.Key.IsZero() {
		return nil, fmt.Errorf("onion: Config.Onion has no Key, so the host can only dial: %w", ErrConfig)
	}
	onion, port, err := net.SplitHostPort(addr)
	if err != nil || !strings.EqualFold(onion, cfg.Key.Address()) {
		return nil, fmt.Errorf("onion: the address to listen at is not that of the key in Config.Onion: %w", ErrConfig)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("onion: the port: %w", ErrAddress)
	}
	cfg.Ports = []int{number}
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, DefaultMaxStreams)

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("onion: the transport: %w", net.ErrClosed)
	}
	if t.listening != nil {
		return nil, fmt.Errorf("onion: the host listens at its onion already: %w", ErrConfig)
	}
	s, err := t.tor.listen(t.ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("onion: %w", err)
	}
	l := &listener{service: s, owner: t, addr: laddr, waiting: map[*arriving]bool{}}
	t.listening = l
	l.Listener = t.upgrader.UpgradeGatedMaListener(t, gated{l})
	return l, nil
}

// WaitPublished waits until peers can find the onion service at which a host listens: its
// descriptor is with the directories. If ctx ends first, the error says what went wrong
// last.
func WaitPublished(ctx context.Context, h host.Host) error {
	n, ok := h.Network().(interface {
		TransportForListening(a ma.Multiaddr) transport.Transport
	})
	if !ok {
		return fmt.Errorf("onion: the host's network tells nothing of its transports: %w", ErrConfig)
	}
	for _, a := range h.Network().ListenAddresses() {
		t, ok := n.TransportForListening(a).(*Transport)
		if !ok {
			continue
		}
		t.mu.Lock()
		l := t.listening
		t.mu.Unlock()
		if l != nil {
			return l.service.WaitPublished(ctx)
		}
	}
	return fmt.Errorf("onion: the host listens at no onion: %w", ErrConfig)
}

// listener is an open onion service, with libp2p's listener on top of it.
type listener struct {
	transport.Listener // of the upgrader, which accepts from gated
	service            service
	ended              atomic.Bool // whether Close has begun
	owner              *Transport
	addr               ma.Multiaddr

	mu      sync.Mutex         // guards what follows
	waiting map[*arriving]bool // connections that have proved nothing yet

	closing sync.Once
	closed  error // the result of Close; written in closing
}

// Close ends the service with its connections.
func (l *listener) Close() error {
	l.closing.Do(func() {
		l.ended.Store(true)
		l.closed = l.service.Close()
		// It waits for what it has accepted. Its own error is that of gated, which has none.
		l.closed = errors.Join(l.closed, l.Listener.Close())
		l.owner.mu.Lock()
		defer l.owner.mu.Unlock()
		l.owner.listening = nil
	})
	return l.closed
}

// Accept implements transport.Listener.
func (l *listener) Accept() (transport.CapableConn, error) {
	c, err := l.Listener.Accept()
	switch {
	case err == nil:
		return c, nil
	case l.ended.Load():
		return nil, transport.ErrListenerClosed
	}
	return nil, fmt.Errorf("onion: the service has ended: %w", err)
}

// gated is the service as libp2p's upgrader takes it: it accepts what the gater and the
// resource manager allow.
type gated struct{ l *listener }

var _ transport.GatedMaListener = gated{}

func (g gated) Multiaddr() ma.Multiaddr { return g.l.addr }
func (g gated) Addr() net.Addr          { return g.l.service.Addr() }
func (g gated) Close() error            { return g.l.service.Close() }

func (g gated) Accept() (manet.Conn, network.ConnManagementScope, error) {
	for {
		raw, err := g.l.service.Accept()
		if err != nil {
			return nil, nil, err
		}
		c := &conn{raw, g.l.addr, unknown}
		if gater := g.l.owner.gater; gater != nil && !gater.InterceptAccept(c) {
			c.Close()
			continue
		}
		if scope := g.l.admit(c); scope != nil {
			return c, scope, nil
		}
		c.Close()
	}
}

// admit asks the resource manager for a place. If there is none, a connection that has
// proved nothing yet is closed for it, at random: whoever fills all places with silence
// so keeps them only as long as others do not come, and cannot keep somebody out for good.
// Nil: there is no place.
func (l *listener) admit(c *conn) network.ConnManagementScope {
	from := l.owner.places.incoming(c.Conn)
	for {
		// The connection takes no file descriptor: its bytes go over a link that is there.
		scope, err := l.owner.limits.OpenConnection(network.DirInbound, false, from)
		if err == nil {
			a := &arriving{ConnManagementScope: scope, c: c, l: l}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.waiting[a] = true
			return a
		}
		if !errors.Is(err, network.ErrResourceLimitExceeded) || !l.evict() {
			return nil // too much from this circuit, or nobody can be closed
		}
	}
}

// evict closes one connection that has proved nothing yet, and reports whether there was
// one. Go begins to range over a map at random.
func (l *listener) evict() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.waiting {
		delete(l.waiting, a)
		a.c.Close()
		a.ConnManagementScope.Done() // the upgrader does so again, later
		return true
	}
	return false
}

// leave takes a connection out of those that may be closed for another one, and reports
// whether it was one.
func (l *listener) leave(a *arriving) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.waiting[a]
	delete(l.waiting, a)
	return was
}

// arriving is the scope of a connection that came. libp2p sets its peer when the peer has
// proved who it is.
type arriving struct {
	network.ConnManagementScope
	c *conn
	l *listener
}

// SetPeer implements network.ConnManagementScope.
func (a *arriving) SetPeer(p peer.ID) error {
	if !a.l.leave(a) {
		return fmt.Errorf("onion: the connection made room for another one: %w", net.ErrClosed)
	}
	return a.ConnManagementScope.SetPeer(p)
}

// Done implements network.ResourceScopeSpan.
func (a *arriving) Done() {
	a.l.leave(a)
	a.ConnManagementScope.Done()
}
