// Package hsclient reaches onion services (rend-spec-v3): it finds a service's
// descriptor, has the service come to a rendezvous point, and gives out the circuit
// that leads to it.
//
// A client keeps descriptors by service. It keeps by service and isolation key: the
// circuit, which carries nothing else, and what has failed (history).
package hsclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// OwnedCircuit is an open circuit that belongs to one purpose for all its life.
type OwnedCircuit interface {
	Engine() *circuit.Circuit
	// ID is its number in events.
	ID() uint64
	// Last is the relay at its end.
	Last() linkspec.Target
	// Close ends it. It may be called more than once.
	Close()
}

// Network is what a client needs of its network. Its methods may be called from
// many goroutines.
type Network interface {
	// Directory returns the directory to use now; an error says why there is none.
	Directory(ctx context.Context) (*netdir.Directory, error)
	// Internal returns a circuit to a relay that can be a rendezvous point.
	Internal(ctx context.Context, stable bool) (OwnedCircuit, error)
	// To returns a circuit to a relay. specs, when not nil, are its link specifiers
	// as they must be sent.
	To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (OwnedCircuit, error)
	// Refused returns why the configuration does not allow a relay, or nil.
	Refused(t *linkspec.Target) error
	// Flow returns the consensus's parameters of flow control, and whether congestion
	// control may be asked for.
	Flow() (p *flow.Params, congestion bool)
}

// Config says how a Client works. Network, Log and Keys are required.
type Config struct {
	Network Network
	Log     *slog.Logger
	Keys    func() Keys // for a descriptor that is read now
	// Testing says that the network is one of C tor's TestingTorNetwork, and Private
	// that its relays may have private addresses.
	Testing, Private bool
	// PQ says how this client uses the ML-KEM keys of services: not at all (PQOff), of
	// each service that has one, or so that a service must have one (PQRequireAll).
	PQ circuit.PQPolicy
	// CGO allows counter galois onion on the way to services that offer it.
	CGO bool
	// Idle is how long a circuit to a service stays open after its last stream has
	// begun; nil: ten minutes.
	Idle func() time.Duration
	// MaxEffort is the greatest effort of a proof of work; zero: the client makes none.
	MaxEffort uint32
	// Memory counts the descriptors that are kept, and the work for proofs; nil: nothing
	// does.
	Memory *account.Memory
	// Spare has a rendezvous point made after each connection, for the next one. C tor's clients make
	// one when they need it.
	Spare bool
	// Once has each directory asked only once for a descriptor until all were asked, as C tor's clients do: see search.go.
	Once bool
	// Rest takes over a circuit to a directory that has answered; nil: it is closed.
	Rest func(OwnedCircuit)
	// Limit ends waits for circuits when C tor would, and has a service asked at one introduction point at a time, unless it asks for proofs of
	// work. Nil: the times are fixed, and a slow service is asked at other points, too.
	Limit cbt.Limiter
	// Tell is told of fetches of descriptors, and of uploads for controllers; nil: nobody is.
	Tell netdir.HSTell
}

// Client reaches onion services. Its methods may be called from any goroutine.
type Client struct {
	cfg     Config
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	room    *account.Account // of the descriptors, and of the workers
	workers *workers
	turns   *turns // of the fetches of descriptors

	commands atomic.Int32 // of controllers, under way
	texts    atomic.Bool  // the texts of descriptors are kept

	mu        sync.Mutex // guards the fields below
	epoch     int        // grows with NewIdentity
	descs     map[ident.Ed25519ID]*cached
	services  map[ident.Ed25519ID]*known // by addresses
	asked     map[question]pause
	searches  map[ident.Ed25519ID]*search // by blinded keys
	histories map[connKey]*history
	conns     map[connKey]*connection
	lingering lingering
	spare     spare
	closed    bool
}

// New returns a client. Close ends it.
func New(cfg Config) *Client {
	if cfg.Idle == nil {
		cfg.Idle = func() time.Duration { return 10 * time.Minute }
	}
	// Directories sent the descriptors, but strangers made them: nobody's address counts.
	c := &Client{cfg: cfg, conns: map[connKey]*connection{}, room: cfg.Memory.Address(netip.Addr{})}
	c.workers = newWorkers(c)
	c.turns = newTurns(cfg.Log)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.forgetLocked()
	return c
}

func (c *Client) forgetLocked() {
	for k := range c.descs {
		c.dropLocked(k)
	}
	c.descs, c.asked, c.histories = map[ident.Ed25519ID]*cached{}, map[question]pause{}, map[connKey]*history{}
	c.searches = map[ident.Ed25519ID]*search{}
	c.services = map[ident.Ed25519ID]*known{}
}

// NewIdentity forgets descriptors and failures, and keeps new streams from all
// circuits that exist.
func (c *Client) NewIdentity() {
	for _, conn := range c.forget() {
		conn.retire()
	}
	c.turns.forget()
	c.dropSpare() // after forget: none that is being made comes later
}

// ChangedKeys says that Keys returns other ones from now on. What was learned with a key that is
// no more, or without one that is there now, leads no stream to its service any more: descriptors are
// read again, and streams from now on share no circuit with those from before.
func (c *Client) ChangedKeys(old, now Keys) {
	for _, conn := range c.forgetKeys(old.changed(now)) {
		conn.retire()
	}
}

func (c *Client) forgetKeys(changed []ident.Ed25519ID) (old []*connection) {
	if len(changed) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The epoch keeps what attempts under way find from those that begin now.
	c.epoch++
	c.forgetLocked()
	for k, conn := range c.conns {
		if slices.Contains(changed, k.id) {
			old = append(old, conn)
			delete(c.conns, k)
		}
	}
	return old
}

// forget forgets everything, and returns the connections that there were.
func (c *Client) forget() map[connKey]*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.conns
	c.conns = map[connKey]*connection{}
	c.epoch++
	c.forgetLocked()
	return old
}

// Close ends all circuits, and waits until no goroutine is left.
func (c *Client) Close() {
	all := c.close()
	c.cancel()
	c.dropSpare()
	for _, conn := range all {
		conn.end()
	}
	c.wg.Wait()
	c.room.Close() // after the last that opens an account below it
	c.endAllLingerers()
}

func (c *Client) close() map[connKey]*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	all := c.conns
	c.conns = map[connKey]*connection{}
	c.forgetLocked()
	return all
}

// connKey says which streams share a circuit to a service.
type connKey struct {
	id  ident.Ed25519ID
	key isolation.Key
}

// shuffle puts list in an order that nobody can foretell.
func shuffle[T any](list []T) {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	r := mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:16])))
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}
