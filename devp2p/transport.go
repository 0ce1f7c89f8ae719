package devp2p

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// The defaults of Config.
const (
	DefaultFallbackAfter = 20 * time.Second
	DefaultDialTimeout   = time.Minute
)

// Config is the configuration of a Transport.
type Config struct {
	// Policy says how nodes may be reached. Empty: OnlyOnion.
	Policy Policy
	// Onions reaches onions. Only Clearnet does without. It stays the caller's.
	Onions Onions
	// IsolatePeers gives each peer circuits of its own: relays cannot link two of this
	// node's connections by their circuit. Without it, peers behind one onion share a
	// circuit, and connections are set up faster.
	IsolatePeers bool
	// FallbackAfter is how long a node's first way may take if there is a second one:
	// PreferOnion then goes from the onion to the address. Zero: DefaultFallbackAfter.
	FallbackAfter time.Duration
	// DialTimeout is how long a node's last or only way may take. Zero:
	// DefaultDialTimeout.
	DialTimeout time.Duration
	// DialAddr connects to an IP address and port outside Tor. Nil: as package net does.
	// OnlyOnion never calls it.
	DialAddr func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log gets no address, name or key. Nil: no log.
	Log *slog.Logger
}

// Route is how a peer is reached, or would be reached.
type Route struct {
	Onion bool   // through its onion; else through its address
	Why   string // in words, for people: without addresses and names
}

// String returns the route and the reason.
func (r Route) String() string {
	if r.Onion {
		return "onion: " + r.Why
	}
	return "address: " + r.Why
}

// Transport reaches nodes by a policy. Its methods may be called from any goroutine.
type Transport struct {
	cfg   Config
	book  measures
	coin  func() float64 // a random number below 1, for the exploration of Adaptive
	ctx   context.Context
	close context.CancelFunc

	mu        sync.Mutex
	listeners []OnionListener // guarded by mu: those to close
}

var _ p2p.NodeDialer = (*Transport)(nil)

// New returns a transport. It opens nothing.
func New(cfg Config) (*Transport, error) {
	cfg.Policy = cmp.Or(cfg.Policy, OnlyOnion)
	if _, err := ParsePolicy(string(cfg.Policy)); err != nil {
		return nil, err
	}
	if cfg.Policy.AllowsOnion() && cfg.Onions == nil {
		return nil, fmt.Errorf("devp2p: policy %s needs Onions", cfg.Policy)
	}
	if cfg.FallbackAfter < 0 || cfg.DialTimeout < 0 {
		return nil, errors.New("devp2p: FallbackAfter and DialTimeout cannot be negative")
	}
	cfg.FallbackAfter = cmp.Or(cfg.FallbackAfter, DefaultFallbackAfter)
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	if cfg.DialAddr == nil {
		cfg.DialAddr = new(net.Dialer).DialContext
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Transport{cfg: cfg, coin: mathrand.Float64}
	t.ctx, t.close = context.WithCancel(context.Background())
	return t, nil
}

// Policy returns the policy.
func (t *Transport) Policy() Policy { return t.cfg.Policy }

// Dial implements p2p.NodeDialer.
func (t *Transport) Dial(ctx context.Context, n *enode.Node) (net.Conn, error) {
	c, _, err := t.DialRoute(ctx, n)
	return c, err
}

// DialRoute connects to a node by the policy, and says which way it took, and why. It
// looks no name up: an address must be in the node's record, or be its enode URL's.
// After an error the route is the last one that was tried.
func (t *Transport) DialRoute(ctx context.Context, n *enode.Node) (net.Conn, Route, error) {
	ctx, cancel := t.bound(ctx)
	defer cancel()
	attempts, err := t.plan(n, true)
	if err != nil {
		return nil, Route{}, err
	}
	var failed []error
	for i, a := range attempts {
		limit := t.cfg.DialTimeout
		if i+1 < len(attempts) {
			limit = min(limit, t.cfg.FallbackAfter)
		}
		if i > 0 {
			a.Why = fmt.Sprintf("%s (before that, %v)", a.Why, failed[i-1])
		}
		c, err := t.try(ctx, n, a.Onion, limit)
		if err == nil {
			t.book.took(n.ID(), a.Onion)
			return c, a, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil || i+1 == len(attempts) {
			return nil, a, fmt.Errorf("devp2p: %w", errors.Join(failed...))
		}
	}
	panic("devp2p: a plan without attempts") // plan returns one or an error
}

// DialPrivate connects to a node's onion over a circuit that nothing else uses, whatever
// the policy: for what must not be linked with this node's other connections. It never
// uses the address.
func (t *Transport) DialPrivate(ctx context.Context, n *enode.Node) (net.Conn, error) {
	if t.cfg.Onions == nil {
		return nil, fmt.Errorf("devp2p: policy %s has no onions", t.cfg.Policy)
	}
	addr, err := onionAddr(n)
	if err != nil {
		return nil, fmt.Errorf("devp2p: %w", err)
	}
	ctx, cancel := t.bound(ctx)
	defer cancel()
	ctx, cancelTime := context.WithTimeout(ctx, t.cfg.DialTimeout)
	defer cancelTime()
	return t.cfg.Onions.DialOnion(ctx, addr, "private "+rand.Text())
}

// Route returns how the policy would reach a node now.
func (t *Transport) Route(n *enode.Node) (Route, error) {
	attempts, err := t.plan(n, false)
	if err != nil {
		return Route{}, err
	}
	return attempts[0], nil
}

// Listen opens an onion service for the node, at a virtual port. Its key is kept in
// keyDir; empty: it has a new key.
func (t *Transport) Listen(ctx context.Context, keyDir string, port int) (OnionListener, error) {
	if !t.cfg.Policy.AllowsOnion() {
		return nil, fmt.Errorf("devp2p: policy %s hosts no onion", t.cfg.Policy)
	}
	l, err := t.cfg.Onions.ListenOnion(ctx, keyDir, port)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		l.Close()
		return nil, net.ErrClosed
	}
	t.listeners = append(t.listeners, l)
	return l, nil
}

// Close ends dials that wait, and closes the listeners. Connections go on.
func (t *Transport) Close() error {
	t.close()
	t.mu.Lock()
	open := t.listeners
	t.listeners = nil
	t.mu.Unlock()
	var errs []error
	for _, l := range open {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// bound returns a context that also ends with the transport.
func (t *Transport) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(net.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// try connects to a node in one way, and notes how that went.
func (t *Transport) try(ctx context.Context, n *enode.Node, onion bool, limit time.Duration) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dial := t.dialAddr
	if onion {
		dial = t.dialOnion
	}
	began := time.Now()
	c, err := dial(limited, n)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // the caller's wish, no failure of the node
		}
		if limited.Err() != nil {
			err = fmt.Errorf("no connection in %v: %w", limit, err)
		}
		t.book.failed(n.ID(), onion)
		return nil, fmt.Errorf("%s: %w", wayName(onion), err)
	}
	t.book.connected(n.ID(), onion, time.Since(began))
	return &conn{Conn: c, id: n.ID(), onion: onion, book: &t.book}, nil
}

func wayName(onion bool) string {
	if onion {
		return "onion"
	}
	return "address"
}

func (t *Transport) dialOnion(ctx context.Context, n *enode.Node) (net.Conn, error) {
	addr, err := onionAddr(n)
	if err != nil {
		return nil, err
	}
	isolation := ""
	if t.cfg.IsolatePeers {
		isolation = "peer " + n.ID().String()
	}
	return t.cfg.Onions.DialOnion(ctx, addr, isolation)
}

// dialAddr is the only function here that leaves Tor.
func (t *Transport) dialAddr(ctx context.Context, n *enode.Node) (net.Conn, error) {
	if !t.cfg.Policy.AllowsClearnet() {
		return nil, fmt.Errorf("policy %s dials no address", t.cfg.Policy)
	}
	ep, ok := n.TCPEndpoint()
	if !ok {
		return nil, errNoAddr
	}
	c, err := t.cfg.DialAddr(ctx, "tcp", ep.String())
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the address
	}
	return c, err
}
