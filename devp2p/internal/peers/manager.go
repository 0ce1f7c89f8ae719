package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
)

// The flags of p2p.Server.SetupConn, whose type go-ethereum does not export.
const (
	flagDialed  = 2 // a static node that was dialled
	flagInbound = 4
)

// slack is how many connections more than MaxPeers the server takes, so that a new one
// can take the place of an old one.
const slack = 4

// Manager owns a p2p.Server and its connections.
type Manager struct {
	cfg Config
	id  enode.ID
	log *slog.Logger

	wake      chan struct{}  // the dial loop looks again
	reachable chan struct{}  // closed when others can connect
	wg        sync.WaitGroup // every goroutine of Run

	mu      sync.Mutex
	srv     *p2p.Server          // guarded by mu: nil until Run has started it
	ended   bool                 // guarded by mu: Run has ended, or is ending
	table   map[enode.ID]*entry  // guarded by mu
	onions  map[string]int       // guarded by mu: how many entries have an onion
	conns   map[string]*conn     // guarded by mu: by the text of their address: pending and live
	live    map[enode.ID]*conn   // guarded by mu: connected peers
	groups  map[string]int       // guarded by mu: incoming connections by circuit or address
	pending int                  // guarded by mu: incoming connections before their handshake's end
	dials   int                  // guarded by mu: under way
	banned  bans[enode.ID]       // guarded by mu
	shut    bans[string]         // guarded by mu: groups that may not connect
	dirty   bool                 // guarded by mu: the table differs from the file
	serial  uint64               // guarded by mu: the number of the last connection
	onion   devp2p.OnionListener // guarded by mu: nil: none
}

// New checks the configuration and reads the nodes that were kept. Run starts.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, id: enode.PubkeyToIDV4(&cfg.Key.PublicKey), log: cfg.Log,
		wake: make(chan struct{}, 1), reachable: make(chan struct{}),
		table: map[enode.ID]*entry{}, onions: map[string]int{}, conns: map[string]*conn{},
		live: map[enode.ID]*conn{}, groups: map[string]int{},
		banned: bans[enode.ID]{most: maxBans}, shut: bans[string]{most: maxGroups},
	}
	if cfg.Dir != "" {
		if err := m.load(m.storePath()); err != nil {
			return nil, err
		}
	}
	for i, n := range cfg.Static {
		if err := m.add(n, "static", true); err != nil {
			return nil, fmt.Errorf("peers: static node %d: %w", i+1, err)
		}
	}
	return m, nil
}

// Handle adds protocols. It must be called before Run.
func (m *Manager) Handle(protocols ...p2p.Protocol) {
	m.cfg.Protocols = append(m.cfg.Protocols, protocols...)
}

// Self returns this node's record; nil before Run has started the server. It has the
// onion when clients can find it.
func (m *Manager) Self() *enode.Node {
	m.mu.Lock()
	srv := m.srv
	m.mu.Unlock()
	if srv == nil {
		return nil
	}
	return srv.Self()
}

// Run runs the node until ctx ends. It returns when all connections are closed and the
// nodes are kept. The error is nil if only ctx ended it. It can be called once.
func (m *Manager) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv, stop, err := m.server()
	if err != nil {
		return err
	}
	srv.LocalNode().SetStaticIP(net.IPv4zero) // no IP address in the record
	events := make(chan *p2p.PeerEvent, 64)
	sub := srv.SubscribeEvents(events)

	m.mu.Lock()
	if m.srv != nil {
		m.mu.Unlock()
		sub.Unsubscribe()
		stop()
		return errors.New("peers: Run was called twice")
	}
	m.srv = srv
	m.mu.Unlock()

	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watch(events, sub.Err())
	}()
	listeners, err := m.listen(ctx, srv)
	if err == nil {
		for _, l := range listeners {
			m.wg.Go(func() { m.accept(ctx, srv, l, cancel) })
		}
		m.wg.Go(func() { m.dialLoop(ctx, srv) })
		m.wg.Go(func() { m.saveLoop(ctx) })
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
			err = cause
		}
	}
	cancel(nil)
	m.mu.Lock()
	m.ended = true
	var open []*conn
	for _, c := range m.conns {
		// A server of ours tells its peers why they are sent away.
		if c.state == pending || m.cfg.Server != nil {
			open = append(open, c)
		}
	}
	m.mu.Unlock()
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	for _, c := range open {
		c.Close()
	}
	stop()
	m.wg.Wait()
	sub.Unsubscribe()
	<-watched
	if m.cfg.Dir != "" {
		err = errors.Join(err, m.save(m.storePath()))
	}
	return err
}

// server returns the server to use, and a function that stops it if it is this
// manager's own.
func (m *Manager) server() (*p2p.Server, func(), error) {
	if srv := m.cfg.Server; srv != nil {
		if err := checkServer(srv); err != nil {
			return nil, nil, err
		}
		if srv.LocalNode() == nil {
			return nil, nil, errors.New("peers: the server was not started")
		}
		if srv.LocalNode().ID() != m.id {
			return nil, nil, errors.New("peers: the server has another key")
		}
		return srv, func() {}, nil
	}
	srv := &p2p.Server{Config: p2p.Config{
		PrivateKey: m.cfg.Key, Name: m.cfg.Name, Protocols: m.cfg.Protocols, TrustedNodes: m.cfg.Trusted,
		MaxPeers: m.cfg.MaxPeers + slack,
		NoDial:   true, NoDiscovery: true,
		Logger: log.NewLogger(slog.DiscardHandler), // it would log addresses and keys
	}}
	if err := srv.Start(); err != nil {
		return nil, nil, fmt.Errorf("peers: %w", err)
	}
	return srv, srv.Stop, nil
}

// listen opens the onion, and the listener outside Tor if there is one.
func (m *Manager) listen(ctx context.Context, srv *p2p.Server) (open []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range open {
				l.Close()
			}
			open = nil
		}
	}()
	port := m.cfg.Port
	if m.cfg.ListenAddr != "" {
		l, err := net.Listen("tcp", m.cfg.ListenAddr)
		if err != nil {
			return open, fmt.Errorf("peers: %w", err)
		}
		open = append(open, l)
		tcp := l.Addr().(*net.TCPAddr)
		port = tcp.Port
		srv.LocalNode().Set(enr.TCP(port))
		if !tcp.IP.IsUnspecified() {
			srv.LocalNode().SetStaticIP(tcp.IP)
		}
	}
	if m.cfg.NoOnion || !m.cfg.Transport.Policy().AllowsOnion() {
		close(m.reachable)
		return open, nil
	}
	dir := ""
	if m.cfg.Dir != "" {
		dir = filepath.Join(m.cfg.Dir, "onion")
	}
	l, err := m.cfg.Transport.Listen(ctx, dir, port)
	if err != nil {
		return open, fmt.Errorf("peers: the onion: %w", err)
	}
	open = append(open, l)
	m.mu.Lock()
	m.onion = l
	m.mu.Unlock()
	m.wg.Go(func() {
		if err := l.Published(ctx); err != nil {
			if ctx.Err() == nil {
				m.log.Warn("the onion is not published", "err", err)
			}
			return
		}
		srv.LocalNode().Set(l.Onion())
		srv.LocalNode().Set(enr.TCP(port))
		m.log.Info("the onion is published")
		close(m.reachable)
	})
	return open, nil
}

// watch follows the server's events: a peer is connected, or is gone.
func (m *Manager) watch(events <-chan *p2p.PeerEvent, end <-chan error) {
	for {
		select {
		case <-end:
			return
		case e := <-events:
			switch e.Type {
			case p2p.PeerEventTypeAdd:
				m.joined(e.Peer, e.RemoteAddress)
			case p2p.PeerEventTypeDrop:
				m.left(e.Peer, e.RemoteAddress, e.Error)
			}
		}
	}
}

// joined notes a peer whose handshake is done, and makes room for it.
func (m *Manager) joined(id enode.ID, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns[addr]
	if c == nil {
		return
	}
	now := time.Now()
	m.settle(c)
	c.state, c.id, c.since = connected, id, now
	m.live[id] = c
	if e := m.table[id]; e != nil {
		e.connected = now
		m.dirty = true
	}
	switch {
	case !m.banned.has(id, now).IsZero():
		m.disconnect(id, p2p.DiscUselessPeer)
	case len(m.live) > m.cfg.MaxPeers && c.inbound:
		if victim := m.evict(c); victim != nil {
			m.disconnect(victim.id, p2p.DiscTooManyPeers)
		} else {
			m.disconnect(id, p2p.DiscTooManyPeers)
		}
	}
}

// quick is how long a connection must last so that the next dial need not wait.
const quick = time.Minute

// left notes that a peer is gone.
func (m *Manager) left(id enode.ID, addr, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.live[id]
	if c == nil || c.addr.String() != addr {
		return
	}
	delete(m.live, id)
	m.drop(c)
	if e := m.table[id]; e != nil {
		now := time.Now()
		e.connected, e.lastErr = now, why
		if now.Sub(c.since) < quick {
			e.failures++
		} else {
			e.failures = 0
		}
		m.delay(e, now)
		m.dirty = true
	}
	m.poke()
}

// disconnect sends a peer away, with a reason. It does not wait. mu is held.
func (m *Manager) disconnect(id enode.ID, reason p2p.DiscReason) {
	if m.ended {
		return
	}
	srv := m.srv
	m.wg.Go(func() {
		for _, p := range srv.Peers() {
			if p.ID() == id {
				p.Disconnect(reason)
			}
		}
	})
}

// Score counts something that a peer did. A peer with too low a score is sent away, and
// may not come back for an hour; nor may others of its circuit for ten minutes.
func (m *Manager) Score(id enode.ID, e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var value float64
	c := m.live[id]
	if c != nil {
		value = c.score.add(e, now)
	}
	if entry := m.table[id]; entry != nil {
		value = entry.score.add(e, now)
		m.dirty = true
	}
	if value > scoreBan {
		return
	}
	m.banned.add(id, now.Add(banTime), now)
	if c == nil {
		return
	}
	m.log.Info("a peer is sent away", "after", e.String(), "onion", c.route.Onion, "inbound", c.inbound)
	if c.group != "" {
		m.shut.add(c.group, now.Add(groupBan), now)
	}
	m.disconnect(id, rules[e].reason)
}

// poke has the dial loop look again.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Reachable waits until other nodes can connect: the listeners are open, and the onion,
// if there is one, is published. The error is the context's.
func (m *Manager) Reachable(ctx context.Context) error {
	select {
	case <-m.reachable:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
