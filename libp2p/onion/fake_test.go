package onion

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
)

// fake is a tor without a network: its onions are in memory.
type fake struct {
	mu       sync.Mutex
	services map[string]*fakeService
	keys     []string      // the isolation of each dial, in order
	fail     error         // what each dial returns, if not nil
	stuck    bool          // whether a dial waits until its context ends
	linger   time.Duration // how long it takes to end after that
}

var seed = maphash.MakeSeed()

func newFake() *fake { return &fake{services: map[string]*fakeService{}} }

func (f *fake) dial(ctx context.Context, isolation, addr string) (net.Conn, error) {
	f.mu.Lock()
	f.keys = append(f.keys, isolation)
	s, fail, stuck, linger := f.services[addr], f.fail, f.stuck, f.linger
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		<-time.After(linger) // of virtual time
		return nil, context.Cause(ctx)
	}
	if fail == nil && s == nil {
		fail = chive.ErrOnionNoDescriptor
	}
	if fail != nil {
		return nil, fail
	}
	return s.connect(ctx, maphash.String(seed, isolation)) // a circuit for each key
}

func (f *fake) listen(_ context.Context, cfg chive.OnionConfig) (service, error) {
	s := &fakeService{owner: f, cfg: cfg, come: make(chan net.Conn), closed: make(chan struct{})}
	s.addr = fakeAddr(net.JoinHostPort(cfg.Key.Address(), "4001"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg.Ports[0] != 4001 || f.services[string(s.addr)] != nil {
		return nil, errors.New("fake: the port is another one, or the onion is open")
	}
	f.services[string(s.addr)] = s
	return s, nil
}

type fakeAddr string

func (fakeAddr) Network() string  { return "tor" }
func (a fakeAddr) String() string { return string(a) }

// fakeService is an onion service in memory.
type fakeService struct {
	owner  *fake
	cfg    chive.OnionConfig
	addr   fakeAddr
	come   chan net.Conn
	once   sync.Once
	closed chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func (s *fakeService) connect(ctx context.Context, circuit uint64) (net.Conn, error) {
	here, there := pipe(circuit)
	select {
	case s.come <- there:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, there)
		return here, nil
	case <-ctx.Done():
	case <-s.closed:
	}
	return nil, errors.Join(chive.ErrOnionRendezvous, here.Close(), there.Close())
}

func (s *fakeService) Accept() (net.Conn, error) {
	select {
	case c := <-s.come:
		return c, nil
	case <-s.closed:
		return nil, chive.ErrClosed
	}
}

func (s *fakeService) Addr() net.Addr                      { return s.addr }
func (s *fakeService) WaitPublished(context.Context) error { return nil }

func (s *fakeService) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.owner.mu.Lock()
		delete(s.owner.services, string(s.addr))
		s.owner.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.conns {
			c.Close()
		}
	})
	return nil
}

// buffered is an end of a pipe whose writes do not wait for the reader, as those of a stream
// do not.
type buffered struct {
	net.Conn
	circuit uint64
	mu      sync.Mutex
	more    *sync.Cond
	out     bytes.Buffer
	end     bool
}

func (c *buffered) Circuit() uint64 { return c.circuit }

func pipe(circuit uint64) (net.Conn, net.Conn) {
	a, b := net.Pipe()
	x, y := &buffered{Conn: a}, &buffered{Conn: b, circuit: circuit}
	for _, c := range []*buffered{x, y} {
		c.more = sync.NewCond(&c.mu)
		go c.pump()
	}
	return x, y
}

func (c *buffered) pump() {
	for {
		c.mu.Lock()
		for c.out.Len() == 0 && !c.end {
			c.more.Wait()
		}
		b := slices.Clone(c.out.Bytes())
		c.out.Reset()
		c.mu.Unlock()
		if len(b) == 0 {
			c.Conn.Close()
			return
		}
		if _, err := c.Conn.Write(b); err != nil {
			c.Close()
		}
	}
}

func (c *buffered) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end {
		return 0, net.ErrClosed
	}
	c.more.Signal()
	return c.out.Write(b)
}

// Close sends what was written, if the other end reads on.
func (c *buffered) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.end {
		c.end = true
		c.more.Signal()
		c.Conn.SetReadDeadline(time.Unix(1, 0))
		// What the other end does not read keeps nobody.
		c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return nil
}

// SetDeadline and SetWriteDeadline leave writes alone, which do not wait.
func (c *buffered) SetDeadline(at time.Time) error   { return c.Conn.SetReadDeadline(at) }
func (c *buffered) SetWriteDeadline(time.Time) error { return nil }

// node is a transport of its own, with libp2p's upgrader.
type node struct {
	*Transport
	id     peer.ID
	addr   ma.Multiaddr
	limits network.ResourceManager
}

// newNode makes a transport with an onion of its own.
func newNode(t *testing.T, f *fake, limits rcmgr.Limiter, g connmgr.ConnectionGater) *node {
	t.Helper()
	// Virtual time: what was sent before an end was closed, and nobody has read, is given up (see buffered.Close).
	t.Cleanup(func() { time.Sleep(2 * time.Second) })
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	return nodeWith(t, f, limits, g, Config{Onion: chive.OnionConfig{Key: key}})
}

func nodeWith(t *testing.T, f *fake, limits rcmgr.Limiter, g connmgr.ConnectionGater, cfg Config) *node {
	t.Helper()
	priv, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := &node{}
	if out.id, err = peer.IDFromPrivateKey(priv); err != nil {
		t.Fatal(err)
	}
	if limits == nil {
		limits = rcmgr.NewFixedLimiter(rcmgr.InfiniteLimits)
	}
	if out.limits, err = rcmgr.NewResourceManager(limits, rcmgr.WithMetricsDisabled()); err != nil {
		t.Fatal(err)
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	protect, err := noise.New(noise.ID, priv, muxers)
	if err != nil {
		t.Fatal(err)
	}
	up, err := upgrader.New([]sec.SecureTransport{protect}, muxers, nil, out.limits, g)
	if err != nil {
		t.Fatal(err)
	}
	if out.Transport, err = newTransport(f, cfg)(up, out.limits, g); err != nil {
		t.Fatal(err)
	}
	if !cfg.Onion.Key.IsZero() {
		if out.addr, err = ListenAddr(cfg.Onion.Key, 4001); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(out.Close(), out.limits.Close()); err != nil {
			t.Error(err)
		}
	})
	return out
}
