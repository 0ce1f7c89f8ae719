package chive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/stream"
)

// OnionConfig is the configuration of an onion service. The zero OnionConfig is a
// service with a new key, which ends with its listener, and with all ports.
// OnionListener.Reload can change the fields with the tag reload:"live".
type OnionConfig struct {
	// Name names the service in the log, which never has its address. Empty: no name.
	Name string
	// KeyDir is the directory of the service's key: C tor's HiddenServiceDir. It is
	// made, with a new key, if it is missing, and no other program can use it at the same
	// time. A file in its folder authorized_clients whose name ends in ".auth" authorizes a
	// client; without such files everybody who knows the address may connect. Empty: Key
	// counts.
	KeyDir string
	// Key is a service's secret key, as OnionListener.Key returns it. Nil: a new one.
	Key []byte
	// AuthorizedClients are clients besides those of KeyDir, each as it stands in a
	// file there: "descriptor:x25519:" and the public key in base32.
	AuthorizedClients []string `reload:"live"`

	// Ports are the virtual ports whose connections Accept returns. Nil: all that
	// Targets does not have.
	Ports []int
	// Targets says where connections to other virtual ports go: an IP address with a
	// port, such as "127.0.0.1:8080", or "unix:" and the path of a socket.
	Targets map[int]string `reload:"live"`
	// ExportCircuitID "haproxy" sends to a target, before a client's bytes, a line of
	// HAProxy's PROXY protocol, version 1, as C tor's HiddenServiceExportCircuitID does:
	// in place of a client's address it has OnionConn.CircuitAddr. Empty: no such line.
	ExportCircuitID string `reload:"live"`

	// Masters are addresses of services of which this one is a backend: OnionBalance, or
	// another frontend, names this service's introduction points in their descriptors.
	// They are besides those in the file ob_config of KeyDir, which is C tor's.
	Masters []string

	// Backends make this service a frontend: its descriptors name the introduction points
	// of the services with these addresses, so that its clients meet them. Each backend must have
	// this service among its Masters. A frontend has no Ports, Targets or connections.
	Backends []string
	// Fleet says that other hosts may serve the same address at the same time. They have
	// the same key, and Fleet is true there, too. Each host has introduction points of its
	// own, and keeps those of the others in the descriptor. See OnionListener.Leave.
	Fleet bool

	// IntroductionPoints is the number of relays at which clients ask for the service,
	// from 1 to 20; zero: 3. Many of them, together with many authorized clients, make a
	// descriptor that directories refuse: Listen refuses them before.
	IntroductionPoints int `reload:"live"`
	// IntroDoSDefense asks these relays to let at most IntroDoSRate introductions a second
	// through, and IntroDoSBurst at once; zero: 25 and 200. Relays that cannot do this are
	// not asked. Without it, the consensus decides.
	IntroDoSDefense bool `reload:"live"`
	IntroDoSRate    int  `reload:"live"`
	IntroDoSBurst   int  `reload:"live"`
	// PoWDefense asks clients for proofs of work (hspow-spec), of an effort that grows while
	// more of them come than the service answers: those with the greatest effort are
	// answered first. PoWQueueRate is how many are answered in a second, and PoWQueueBurst
	// at once; zero: 250 and 2500. Clients without a proof are answered last.
	PoWDefense    bool `reload:"live"`
	PoWQueueRate  int  `reload:"live"`
	PoWQueueBurst int  `reload:"live"`
	// MaxStreams bounds the open connections that come over one circuit, which is one
	// client's. Zero: only the service's 16,384 connections bound them, of which a circuit
	// gets at most a quarter of those that are left. A connection over MaxStreams is
	// refused, or, with CloseCircuit, ends all connections of its circuit.
	MaxStreams   int  `reload:"live"`
	CloseCircuit bool `reload:"live"`

	// SingleOnion makes the service faster and NOT ANONYMOUS if it is HostCanBeFound: its
	// circuits to introduction and rendezvous points have one hop, so that relays, and
	// others through them, learn the address of this host. Clients stay anonymous. It is
	// for services whose place everybody knows. The client must be used for nothing else:
	// then it refuses to dial, and a client that has dialled refuses such a service. Empty:
	// an ordinary service. C tor calls this HiddenServiceSingleHopMode.
	SingleOnion string
}

// HostCanBeFound is the value of OnionConfig.SingleOnion that gives up the service's
// anonymity.
const HostCanBeFound = "host-can-be-found"

// The limits of introductions that C tor asks for by default.
const (
	defaultIntroRate  = 25
	defaultIntroBurst = 200
)

// key returns the service's key.
func (cfg *OnionConfig) key() (*hsservice.Key, error) {
	switch {
	case cfg.KeyDir != "" && cfg.Key != nil:
		return nil, fault.New(fault.Config, "onion service: KeyDir and Key are both given")
	case cfg.KeyDir != "":
		return hsservice.OpenKey(cfg.KeyDir)
	case cfg.Key != nil:
		return hsservice.ParseKey(cfg.Key)
	}
	return hsservice.NewKey()
}

// masters returns the services of which this one is a backend.
func (cfg *OnionConfig) masters() ([]ident.Ed25519ID, error) {
	var more []string
	if cfg.KeyDir != "" {
		var err error
		if more, err = hsservice.ReadMasters(cfg.KeyDir); err != nil {
			return nil, err
		}
	}
	return hsservice.ParsePeers("master", slices.Concat(cfg.Masters, more))
}

// live turns what may change into the service's configuration.
func (cfg *OnionConfig) live() (hsservice.Live, error) {
	out := hsservice.Live{Points: cfg.IntroductionPoints, MaxStreams: cfg.MaxStreams, CloseCircuit: cfg.CloseCircuit}
	switch cfg.ExportCircuitID {
	case "":
	case "haproxy":
		out.ExportCircuit = true
	default:
		return out, fault.New(fault.Config, "onion service: ExportCircuitID %q: it must be haproxy, or empty", cfg.ExportCircuitID)
	}
	if cfg.IntroDoSDefense {
		out.IntroLimit = &cell.IntroDoS{RatePerSec: int64(cmp.Or(cfg.IntroDoSRate, defaultIntroRate)), BurstPerSec: int64(cmp.Or(cfg.IntroDoSBurst, defaultIntroBurst))}
	}
	if cfg.PoWDefense {
		out.PoW = &hsservice.PoW{Rate: cmp.Or(cfg.PoWQueueRate, hsservice.DefaultPoWRate), Burst: cmp.Or(cfg.PoWQueueBurst, hsservice.DefaultPoWBurst)}
	}
	if cfg.KeyDir != "" {
		var err error
		if out.Clients, err = hsservice.ReadClients(cfg.KeyDir); err != nil {
			return out, err
		}
	}
	for _, text := range cfg.AuthorizedClients {
		key, err := hsservice.ParseClient(text)
		if err != nil {
			return out, err
		}
		out.Clients = append(out.Clients, key)
	}
	if cfg.Ports != nil {
		out.Ports = map[uint16]bool{}
	}
	for _, p := range cfg.Ports {
		if p < 1 || p > 65535 {
			return out, fault.New(fault.Config, "onion service: port %d is not from 1 to 65535", p)
		}
		out.Ports[uint16(p)] = true
	}
	for p, text := range cfg.Targets {
		t, err := hsservice.ParseTarget(text)
		if err != nil {
			return out, err
		}
		if p < 1 || p > 65535 || out.Ports[uint16(p)] {
			return out, fault.New(fault.Config, "onion service: target of port %d: a port is from 1 to 65535, and not in Ports", p)
		}
		if out.Targets == nil {
			out.Targets = map[uint16]hsservice.Target{}
		}
		out.Targets[uint16(p)] = t
	}
	return out, nil
}

// Listen starts an onion service, whose address is known at once. Clients can connect
// when Published has returned. The listener ends with its Close, or with the client.
// ctx bounds the start only, which waits for nothing on the network.
func (c *Client) Listen(ctx context.Context, cfg OnionConfig) (*OnionListener, error) {
	if ctx.Err() != nil {
		return nil, fault.New(fault.Closed, "onion service: %w", context.Cause(ctx))
	}
	var lock *role.Dir
	var err error
	if cfg.KeyDir != "" {
		if lock, err = role.OpenServiceDir(cfg.KeyDir); err != nil {
			return nil, err
		}
	}
	l, err := c.listen(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l.lock = lock
	return l, nil
}

func (c *Client) listen(cfg OnionConfig) (*OnionListener, error) {
	if cfg.SingleOnion != "" && cfg.SingleOnion != HostCanBeFound {
		return nil, fault.New(fault.Config, "onion service: SingleOnion is %q: it is empty or %q", cfg.SingleOnion, HostCanBeFound)
	}
	in := hsservice.Config{Name: cfg.Name, Single: cfg.SingleOnion == HostCanBeFound, Fleet: cfg.Fleet}
	var err error
	if in.Key, err = cfg.key(); err != nil {
		return nil, err
	}
	if in.Live, err = cfg.live(); err != nil {
		return nil, err
	}
	if in.Masters, err = cfg.masters(); err != nil {
		return nil, err
	}
	if in.Backends, err = hsservice.ParsePeers("backend", cfg.Backends); err != nil {
		return nil, err
	}
	s, err := c.inner.Listen(in)
	if err != nil {
		return nil, err
	}
	return &OnionListener{s: s, key: in.Key, given: cfg}, nil
}

// OnionListener is an onion service that runs: a net.Listener for the connections of
// its clients. Its methods may be called from any goroutine.
type OnionListener struct {
	s    *hsservice.Service
	key  *hsservice.Key
	lock *role.Dir // of the key's directory; nil: it has none

	mu    sync.Mutex
	given OnionConfig // guarded by mu: the argument of Listen, or of the last Reload

	closing sync.Once
	closed  error // the result of Close; written in closing
}

// Accept returns the next connection: an *OnionConn.
func (l *OnionListener) Accept() (net.Conn, error) {
	c, err := l.s.Accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tor", Addr: l.Addr(), Err: err}
	}
	return &OnionConn{c: c, local: stream.Addr{Host: net.JoinHostPort(l.Address(), strconv.Itoa(int(c.Port())))}}, nil
}

// Address returns the onion address: 56 letters and digits, and ".onion".
func (l *OnionListener) Address() string { return l.key.Address() }

// Addr returns the onion address; if OnionConfig.Ports has one port, with that port.
func (l *OnionListener) Addr() net.Addr {
	if ports := l.Config().Ports; len(ports) == 1 {
		return stream.Addr{Host: net.JoinHostPort(l.Address(), strconv.Itoa(ports[0]))}
	}
	return stream.Addr{Host: l.Address()}
}

// Key returns the service's secret key, for OnionConfig.Key of a later start.
func (l *OnionListener) Key() []byte { return l.key.Bytes() }

// Published waits until clients can find the service: its descriptor is with the
// directories, and another circuit has fetched it from one of them. If ctx ends
// first, the error says what went wrong last.
func (l *OnionListener) Published(ctx context.Context) error { return l.s.Published(ctx) }

// Leave has a host leave its fleet (OnionConfig.Fleet) with hardly a client lost. First it
// takes its introduction points out of the descriptor, so that new clients go to the other
// hosts. When the descriptor is with the directories, it goes on for five seconds, and closes
// its introduction points then. Clients that have asked before
// are met, and connections may go on for half a minute; Accept returns new ones meanwhile.
// Leave returns when there are no more, when that time is over, or when ctx ends. Close must
// follow. If no other host is known, or the service is no fleet, Leave does nothing. An error
// says that the introduction points are still in the descriptor.
func (l *OnionListener) Leave(ctx context.Context) error { return l.s.Leave(ctx) }

// Close ends the service with all its connections, and waits until no goroutine of it
// is left.
func (l *OnionListener) Close() error {
	l.closing.Do(func() {
		l.s.Close()
		l.closed = l.lock.Close()
	})
	return l.closed
}

// Config returns the configuration that Listen or the last successful Reload received.
func (l *OnionListener) Config() OnionConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given
}

// Reload takes over the fields of cfg that may change while the service runs: those that
// OnionConfig marks with reload:"live", and the authorized clients of KeyDir. Open
// connections go on. Directories get a new descriptor if it changes. When a client is no
// longer authorized, the service also gets new introduction points, because the client
// knows the old ones. A backend (OnionConfig.Masters) gets new ones with each Reload: its
// frontend may have removed a client. The other fields must be as Listen got them:
// ErrConfig names those that are not. After an error everything is as before.
func (l *OnionListener) Reload(cfg OnionConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, err := l.next(&cfg)
	if err != nil {
		return err
	}
	if err := l.s.Reload(live); err != nil {
		return err
	}
	l.given = cfg
	return nil
}

// CheckReload returns the error that Reload would return, and changes nothing: a program
// that reloads several things can check all of them first.
func (l *OnionListener) CheckReload(cfg OnionConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, err := l.next(&cfg)
	if err != nil {
		return err
	}
	return l.s.CheckReload(live)
}

// next returns what a reload makes of cfg. The caller has the mutex.
func (l *OnionListener) next(cfg *OnionConfig) (hsservice.Live, error) {
	if err := role.CheckReload(&l.given, cfg); err != nil {
		return hsservice.Live{}, err
	}
	return cfg.live()
}

// OnionConn is a connection that a client of an onion service opened.
type OnionConn struct {
	c     *hsservice.Conn
	local net.Addr
}

// Circuit returns the number of the circuit that the connection came over, as
// CircuitEvent has it. Connections over one circuit are of one client.
func (c *OnionConn) Circuit() uint64 { return c.c.Circuit() }

// CircuitAddr returns an address that stands for the circuit, in fc00:dead:beef:4dad::/64
// as C tor's HiddenServiceExportCircuitID has it: for code that counts or limits by address.
// It is nobody's address on a network.
func (c *OnionConn) CircuitAddr() netip.Addr { return hsservice.CircuitAddr(c.c.Circuit()) }

// Port returns the virtual port that the client asked for.
func (c *OnionConn) Port() int { return int(c.c.Port()) }

// Protection says what made the keys that the client and the service share, and what
// protects them from a later quantum computer (docs/spec/pq-onions.md), and which
// encryption of cells they have in common (docs/spec/cgo-onions.md).
func (c *OnionConn) Protection() HopProtection {
	hop := c.c.Hop()
	return protection([]client.HopProtection{{Handshake: hop.Info().Handshake, Protection: hop.Protection(), Layer: hop.Info().Layer}})[0]
}

// Effort returns the effort of the proof of work with which the client came to the service
// (OnionConfig.PoWDefense); zero: it made none.
func (c *OnionConn) Effort() uint32 { return c.c.Effort() }

// CloseCircuit ends the circuit, with all connections of the same client.
func (c *OnionConn) CloseCircuit() { c.c.CloseCircuit() }

// Read implements net.Conn.
func (c *OnionConn) Read(p []byte) (int, error) { return c.c.Read(p) }

// Write implements net.Conn.
func (c *OnionConn) Write(p []byte) (int, error) { return c.c.Write(p) }

// WriteTo implements io.WriterTo.
func (c *OnionConn) WriteTo(w io.Writer) (int64, error) { return c.c.WriteTo(w) }

// ReadFrom implements io.ReaderFrom.
func (c *OnionConn) ReadFrom(r io.Reader) (int64, error) { return c.c.ReadFrom(r) }

// CloseWrite says that nothing more will be written.
func (c *OnionConn) CloseWrite() error { return c.c.CloseWrite() }

// Close implements net.Conn.
func (c *OnionConn) Close() error { return c.c.Close() }

// LocalAddr returns the onion address and the virtual port.
func (c *OnionConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the same for every client: a service does not learn who they are.
// CircuitAddr tells clients apart.
func (c *OnionConn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *OnionConn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *OnionConn) SetReadDeadline(t time.Time) error { return c.c.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *OnionConn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }
