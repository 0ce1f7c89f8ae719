package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"

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
	faults  faults               // guarded by mu: of groups
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
		banned: bans[enode.ID]{most: maxBans}, shut: bans[string]{most: maxGroups}, faults: faults{},
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
		if err := l.WaitPublished(ctx); err != nil {
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
