package onion

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
)

// Config is the configuration of a transport.
type Config struct {
	// Onion is the onion service at which the host listens. Its Key says the address; a host
	// that only dials needs none. Its Ports and KeyDir must be empty, and it has no Targets,
	// Backends or Masters: the port comes with the address that libp2p listens at. If
	// MaxStreams is zero, a circuit may have [DefaultMaxStreams] connections.
	Onion chive.OnionConfig
	// Isolation returns a key for each peer: peers with different keys are never reached
	// by the same circuit. Nil: each peer has its own key, and shares no circuit with
	// another peer, another host of this program, or anything else that the client does.
	Isolation func(peer.ID) string
}

// DefaultMaxStreams is how many connections one circuit of a client may have by default. A
// peer needs one, and for a moment two.
const DefaultMaxStreams = 4

// check returns an error if cfg cannot be used.
func (cfg *Config) check() error {
	o := &cfg.Onion
	for _, c := range []struct {
		given bool
		what  string
	}{
		{len(o.Ports) > 0, "Ports: the port comes with the address that libp2p listens at"},
		{o.KeyDir != "", "KeyDir: the key must be in Key"},
		{len(o.Targets)+len(o.MoreTargets) > 0, "Targets: all connections go to libp2p"},
		{len(o.Backends)+len(o.Masters) > 0, "Backends or Masters: libp2p has one host for one address"},
		{o.ExportCircuitID != "", "ExportCircuitID: it is for Targets"},
	} {
		if c.given {
			return fmt.Errorf("onion: Config.Onion has %s: %w", c.what, ErrConfig)
		}
	}
	return nil
}

// tor is what a transport needs of a client.
type tor interface {
	dial(ctx context.Context, isolation, addr string) (net.Conn, error)
	listen(ctx context.Context, cfg chive.OnionConfig) (service, error)
}

// service is an onion service.
type service interface {
	net.Listener
	WaitPublished(ctx context.Context) error
}

// client is the tor of a Chive client.
type client struct{ c *chive.Client }

func (c client) dial(ctx context.Context, isolation, addr string) (net.Conn, error) {
	return c.c.DialContext(chive.WithIsolation(ctx, isolation), "tcp", addr)
}

func (c client) listen(ctx context.Context, cfg chive.OnionConfig) (service, error) {
	l, err := c.c.Listen(ctx, cfg)
	if err != nil {
		return nil, err // and no service: l is a nil pointer
	}
	return l, nil
}

// Constructor is what libp2p.Transport takes: libp2p calls it with the parts of the host.
type Constructor = func(transport.Upgrader, network.ResourceManager, connmgr.ConnectionGater) (*Transport, error)

// New returns the constructor of a transport, for libp2p.Transport. The client stays the
// caller's: it must outlive the host.
func New(c *chive.Client, cfg Config) Constructor { return newTransport(client{c}, cfg) }

func newTransport(t tor, cfg Config) Constructor {
	return func(u transport.Upgrader, r network.ResourceManager, g connmgr.ConnectionGater) (*Transport, error) {
		if err := cfg.check(); err != nil {
			return nil, err
		}
		if r == nil {
			r = &network.NullResourceManager{}
		}
		out := &Transport{tor: t, cfg: cfg, upgrader: u, limits: r, gater: g, places: newPlaces()}
		if cfg.Isolation == nil {
			own := rand.Text()
			out.cfg.Isolation = func(p peer.ID) string { return "libp2p " + own + " " + p.String() }
		}
		out.ctx, out.cancel = context.WithCancel(context.Background())
		return out, nil
	}
}

// Transport is a transport of libp2p over onion services. A host has it from the
// constructor that New returns, and closes it.
type Transport struct {
	tor      tor
	cfg      Config
	upgrader transport.Upgrader
	limits   network.ResourceManager
	gater    connmgr.ConnectionGater // nil: all may come
	places   places

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	dials  sync.WaitGroup

	mu        sync.Mutex // guards what follows
	closed    bool
	listening *listener // nil: there is none
}

var _ transport.Transport = (*Transport)(nil)

// begin counts a dial, which Close waits for. Its context ends with the transport.
func (t *Transport) begin(ctx context.Context) (context.Context, func(), error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, fmt.Errorf("onion: the transport: %w", net.ErrClosed)
	}
	t.dials.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(net.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		t.dials.Done()
	}, nil
}

// Dial connects to a peer by its onion.
func (t *Transport) Dial(ctx context.Context, raddr ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	addr, err := hostPort(raddr)
	if err != nil {
		return nil, err
	}
	ctx, done, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	scope, err := t.limits.OpenConnection(network.DirOutbound, false, t.places.outgoing(addr))
	if err != nil {
		return nil, fmt.Errorf("onion: libp2p's resource manager: %w", err)
	}
	if err := scope.SetPeer(p); err != nil {
		scope.Done()
		return nil, fmt.Errorf("onion: libp2p's resource manager: %w", err)
	}
	c, err := t.tor.dial(ctx, t.cfg.Isolation(p), addr)
	if err != nil {
		scope.Done()
		return nil, fmt.Errorf("onion: %w", err)
	}
	// It closes c and ends the scope if it fails.
	up, err := t.upgrader.Upgrade(ctx, t, &conn{c, unknown, raddr}, network.DirOutbound, p, scope)
	if err != nil {
		return nil, fmt.Errorf("onion: %w", err)
	}
	return up, nil
}

// CanDial reports whether an address is an onion and nothing else.
func (t *Transport) CanDial(addr ma.Multiaddr) bool { return onion3(addr) }

// Protocols implements transport.Transport.
func (t *Transport) Protocols() []int { return []int{ma.P_ONION3} }

// Proxy implements transport.Transport. An onion is no proxy for other addresses.
func (t *Transport) Proxy() bool { return false }

// String names the transport in libp2p's log.
func (t *Transport) String() string { return "onion3" }

// Close ends dials that wait, and the onion service with its connections. libp2p calls it
// when the host closes.
func (t *Transport) Close() error {
	t.cancel()
	t.mu.Lock()
	t.closed = true
	l := t.listening
	t.mu.Unlock()
	var err error
	if l != nil {
		err = l.Close()
	}
	t.dials.Wait()
	return err
}
