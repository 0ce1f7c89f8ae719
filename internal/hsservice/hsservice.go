// Package hsservice is an onion service's life on a client's circuits: its keys,
// its introduction points, its descriptors, and the streams that its clients open
// (rend-spec-v3).
//
// One goroutine (tend) decides: which introduction points are wanted, and which
// descriptor must go out. What takes time has goroutines of its own: a circuit to an
// introduction point, an upload, a rendezvous. They report under the service's mutex,
// and wake the one that decides.
//
// What clients can make a service hold or do is bounded here: introductions that wait
// (queue.go), rendezvous under way (places.go), the memory of replays (replay.go), and
// open streams (streams.go). Circuits and streams are on the client's account of memory.
package hsservice

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
)

// Network is what a service needs of the client on whose circuits it lives.
type Network interface {
	// Directory returns a usable directory, or nil, and a channel that is closed when
	// there may be another.
	Directory() (*netdir.Directory, <-chan struct{})
	// Build builds a circuit that nothing else uses. Its number is for the user.
	Build(ctx context.Context, spec path.Spec) (c *circuit.Circuit, number uint64, err error)
	// ToDirectory returns such a circuit that ends at a directory of descriptors.
	ToDirectory(ctx context.Context, t linkspec.Target) (c *circuit.Circuit, number uint64, err error)
	// To returns such a circuit that ends at an introduction point, or, if specs is not
	// nil, at a rendezvous point of a client's choice: these are its link specifiers as
	// they came.
	To(ctx context.Context, t linkspec.Target, specs []linkspec.Spec) (c *circuit.Circuit, number uint64, err error)
	// Met is told that a client's first stream on a circuit of To's is open.
	Met()
	// Flow returns the consensus's parameters of flow control, and whether to offer
	// congestion control.
	Flow() (*flow.Params, bool)
	// Refused returns why a relay is not used: the user excludes it. Nil: it is used.
	Refused(t *linkspec.Target) error
	// Knows reports whether a relay is in the consensus, with the addresses that it has
	// there.
	Knows(t *linkspec.Target) bool
	// Testing reports whether the network is one for tests: relays may have private
	// addresses, and periods are short (netdir.Directory.HSClientPeriod).
	Testing() bool
}

// How many introduction points a service has, unless told otherwise, and at most.
const (
	DefaultPoints = 3
	MaxPoints     = netdoc.MaxIntroPoints
)

// Config says how a service works. Key and Network are required.
type Config struct {
	Key     *Key
	Network Network
	// PQ is PQOff for a service without ML-KEM keys; others have them, and with
	// PQRequireAll the service drops clients that do not use them.
	PQ circuit.PQPolicy
	// CGO offers counter galois onion to clients, where congestion control is offered,
	// too. Not of frontends: theirs is the backends'.
	CGO bool
	// Single says that Network makes one hop to introduction and rendezvous points: the
	// descriptor says so.
	Single bool
	Name   string // names the service in the log; empty: nothing does
	Log    *slog.Logger
	Live   // as it is at the start; later, the service's live counts
	// Masters are the services of which this one is a backend (see masters.go).
	Masters []ident.Ed25519ID
	// Backends makes this service a frontend, which has no clients itself: its
	// descriptors name the introduction points of these services (see frontend.go).
	Backends []ident.Ed25519ID
	// Memory counts what the service remembers of proofs of work; nil: nothing does.
	Memory *account.Memory
	// Fleet says that other hosts may have the same key (see fleet.go).
	Fleet bool
	// Outbound has the addresses that connections to targets come from.
	Outbound netaddr.Sources
	// Dial connects to a target; nil: the connection is the kernel's. Tests have virtual networks.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Ended is called by the client when the service has ended, also if the client's end
	// was the reason; nil: nothing is.
	Ended func() error
	// Tell is told of the service's descriptors and their uploads; nil: nobody is.
	Tell netdir.HSTell
	// Rest takes over a circuit to a directory that has answered, and how it is closed; nil: it is closed at once, and
	// uploads are made four at a time. With it, they are made all at once, as C tor's are.
	Rest func(c *circuit.Circuit, closeIt func())
	// Spare takes over a circuit to a relay that need not be an introduction point, and when it began; nil: it is closed.
	Spare func(c *circuit.Circuit, began time.Time)
	// Second returns what is closed at the next second of the client's clock. What the service begins by itself, it begins then, as
	// C tor's does. Nil: it does not wait.
	Second func() <-chan struct{}
	// Limit ends waits for circuits when C tor would, and has failed uploads repeated as seldom as there (uploadOnce). Nil: the
	// times are fixed.
	Limit cbt.Limiter
}

// Service is a running onion service.
type Service struct {
	cfg        Config
	live       atomic.Pointer[Live]
	log        *slog.Logger
	ctx        context.Context
	cancel     context.CancelCauseFunc
	wg         sync.WaitGroup
	kicked     chan struct{} // wakes tend
	store      store
	destroy    func(*circuit.Circuit) // closeCircuit, except in tests; may be called under the mutex
	endStreams func(*circuit.Circuit) // endStreams, except in tests
	fleet      *fleet                 // nil: this is the only host. The mutex guards what changes
	frontend   *frontend              // nil: this is no frontend. The mutex guards it

	waiting   queue
	opening   *rate.Limiter // of introductions
	work      *work
	backlog   backlog
	published chan struct{} // closed when a descriptor was fetched back, or taken where that is as good (verify)
	pubOnce   sync.Once
	conns     atomic.Int64 // open streams
	counts    counts
	terms     stream.Terms // of the streams that are joined to targets

	mu        sync.Mutex // guards what follows
	points    []*point
	epoch     uint64          // of new points (revoke.go)
	least     uint64          // the epoch from which on points and their clients may stay
	shutting  bool            // streams of clients of older epochs were ended, and their circuits end soon
	launches  []time.Time     // of circuits to introduction points, in launchWindow
	notBefore time.Time       // of the next launch, after a failure
	extra     int             // points of a descriptor launched beyond those wanted, when there is none
	param     netParam        // of the last consensus; nil before
	present   hscrypto.Period // whose descriptor clients with that consensus fetch
	descs     []*descriptor
	subcreds  [][32]byte        // of descs, and of those that were before
	blinded   []ident.Ed25519ID // keys, each for one of subcreds
	kems      kemKeys
	masters   [][32]byte // secrets of the masters, around the period mastersOf
	mastersOf hscrypto.Period
	cookies   cookies
	pending   []*pendingRend // rendezvous, the oldest first
	clients   map[*circuit.Circuit]*clientCircuit
	warned    map[uint16]time.Time // by port: when the last warning about its target was
	toldDrops time.Time            // when the last warning about dropped introductions was
	inc       int                  // the SENDME increment that the descriptors tell, of all points; zero: no congestion control
	problem   error                // the last one, for WaitPublished
	// uploadedAt is when a directory last took a descriptor.
	uploadedAt time.Time
	closed     bool
}

var errClosed = fault.New(fault.Closed, "onion service: %w", net.ErrClosed)

// New starts a service. It returns at once; WaitPublished waits until clients can find it.
func New(cfg Config) (*Service, error) {
	if cfg.Key == nil || cfg.Network == nil {
		return nil, fault.New(fault.Local, "onion service: a key and circuits are required")
	}
	live := cfg.Live
	if err := errors.Join(live.check(), checkPeers("masters", cfg.Masters, cfg.Key.ID(), MaxMasters), checkFrontend(&cfg)); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, log: cfg.Log, kicked: make(chan struct{}, 1), published: make(chan struct{}),
		waiting: queue{most: maxWaiting, ready: make(chan struct{}, 1)},
		opening: rate.NewLimiter(openRate, openBurst),
		backlog: newBacklog(),
		clients: map[*circuit.Circuit]*clientCircuit{},
		warned:  map[uint16]time.Time{},
	}
	s.waiting.counts = &s.counts
	s.terms = stream.Terms{Reason: targetReason, Flush: s.flushTime, Log: s.log}
	s.live.Store(&live)
	s.store, s.destroy, s.endStreams = s, closeCircuit, endStreams
	shared := cfg.Fleet || len(cfg.Backends) > 0
	if cfg.PQ == circuit.PQRequireAll {
		if err := CheckPQ(shared, len(cfg.Masters) > 0); err != nil {
			return nil, err
		}
	}
	if shared {
		s.cfg.PQ = circuit.PQOff
	}
	if cfg.Fleet {
		var err error
		if s.fleet, err = newFleet(cfg.Key); err != nil {
			return nil, err
		}
	}
	if len(cfg.Backends) > 0 {
		s.frontend = &frontend{Frontend: hsfleet.NewFrontend(cfg.Backends)}
	}
	s.work = newWork(hsfleet.Secret(cfg.Key.Bytes(), "work"), cfg.Memory, &s.counts, s.waiting.ready, s.log)
	if cfg.Network.Testing() {
		s.work.control.Every = hspow.ControlEveryTesting
	}
	s.work.set(live.PoW)
	s.opening.SetLimit(mayOpen(live.PoW != nil))
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.wg.Go(panics.Keep(s.log, s.rest, s.run))
	s.wg.Go(panics.Keep(s.log, s.rest, s.serveIntroductions))
	return s, nil
}

// CheckPQ refuses a service that demands post-quantum clients and whose descriptors lead to
// several hosts, because a key is one host's, or that is a backend.
func CheckPQ(shared, backend bool) error {
	switch {
	case shared:
		return fault.New(fault.Config, "onion service: several hosts of one address have no ML-KEM key, so post-quantum clients cannot be demanded")
	case backend:
		return fault.New(fault.Config, "onion service: the descriptors of its masters have no ML-KEM key, so it would drop their clients if it demanded post-quantum ones")
	}
	return nil
}

// Address returns the service's onion address.
func (s *Service) Address() string { return s.cfg.Key.Address() }

// WaitPublished waits until clients can find the service: a descriptor was uploaded, and another circuit has fetched it
// back, or the service has Config.Rest, with which it asks for nothing.
func (s *Service) WaitPublished(ctx context.Context) error {
	select {
	case <-s.published:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.problem != nil {
			return fault.Ended(ctx, "onion service: not published: %w; the last problem: %w", context.Cause(ctx), s.problem)
		}
		return fault.Ended(ctx, "onion service: not published: %w", context.Cause(ctx))
	}
}

// Done is closed when the service has been closed.
func (s *Service) Done() <-chan struct{} { return s.ctx.Done() }

// Close ends the service with its circuits, and waits until no goroutine is left.
func (s *Service) Close() {
	s.cancel(errClosed)
	for _, c := range s.close() {
		closeCircuit(c)
	}
	s.wg.Wait()
	s.work.close()
}

func (s *Service) close() (circs []*circuit.Circuit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.points {
		if p.circ != nil {
			circs = append(circs, p.circ)
		}
	}
	for c := range s.clients {
		circs = append(circs, c)
	}
	s.kems.wipe(0)
	return circs
}

// kick wakes tend.
func (s *Service) kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// rest waits for a second after a panic; false when the service is closed.
func (s *Service) rest() bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

// noteProblem notes a problem for WaitPublished.
func (s *Service) noteProblem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = err
}

// longest is how long tend sleeps at most: times of the wall clock do not notice when
// the machine was suspended.
const longest = 30 * time.Second

// run decides what to do, until the service is closed.
func (s *Service) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.awaitSecond() {
		d, changed := s.cfg.Network.Directory()
		wait := longest
		if d != nil {
			wait = s.tend(d, time.Now())
		}
		timer.Reset(wait)
		select {
		case <-s.ctx.Done():
			return
		case <-changed:
		case <-s.kicked:
		case <-timer.C:
		}
	}
}

// awaitSecond waits for the next second, if the service waits for them; false: it is closed.
func (s *Service) awaitSecond() bool {
	if s.cfg.Second == nil {
		return true
	}
	select {
	case <-s.cfg.Second():
		return true
	case <-s.ctx.Done():
		return false
	}
}

// tend does all that is due, and returns how long it may rest if nothing happens.
func (s *Service) tend(d *netdir.Directory, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return longest
	}
	s.param = d.Param
	s.extra = int(s.param("hs_intro_num_extra", extraPoints, 0, MaxPoints))
	s.present = d.HSTimes(s.cfg.Network.Testing()).Period
	if err := errors.Join(s.setPeriodsLocked(periodsOf(d, s.cfg.Network.Testing())), s.setMastersLocked(d)); err != nil {
		s.problem = err
		return longest
	}
	var wait time.Duration
	if s.frontend != nil {
		wait = s.tendBackendsLocked(d, now)
	} else {
		s.tendOutdatedLocked(d)
		wait = s.tendPointsLocked(now)
	}
	wait = min(wait, s.work.tend(now), s.tendAllDescriptorsLocked(d, now))
	s.closeUnusedLocked(now)
	s.cookies.forget(now)
	s.warnDroppedLocked(now)
	s.kems.forget(now)
	return max(wait, 10*time.Millisecond)
}

// ErrDone closes circuits that are not needed any more.
var ErrDone = fault.New(fault.Closed, "the circuit is not needed any more")
