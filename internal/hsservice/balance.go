package hsservice

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/protover"
)

// A frontend gives its clients to backends, which are services with keys of their own:
// its descriptors name their introduction points, certified by its own key. It fetches
// the backends' descriptors as a client does. What OnionBalance does, this does, too.

const (
	// MaxBackends is how many backends a frontend may have: each has one introduction
	// point in the descriptor at least.
	MaxBackends = netdoc.MaxIntroPoints
	// balanceEvery is the time between two looks at the backends' descriptors, and so
	// the least time between two descriptors; in networks for tests it is shorter.
	balanceEvery, balanceEveryTesting = time.Minute, 10 * time.Second
	// backendStale is how long a backend may publish nothing before it counts as down:
	// directories keep its last descriptor for hours. Living services publish every two
	// hours at least.
	backendStale = 135 * time.Minute
	// In changeWindow at most maxChanges changes of one backend's points are followed.
	changeWindow = time.Hour
	maxChanges   = 12
	// goneAnswers is how many directories must say that they have no descriptor of a
	// backend until it counts as down.
	goneAnswers = 2
)

// balance is what makes a service a frontend.
type balance struct {
	backends []*backend
	busy     bool
	next     time.Time // when to look at the backends
	rounds   int       // that are over
}

// backend is a service that serves the frontend's clients.
type backend struct {
	id       ident.Ed25519ID
	blinded  ident.Ed25519ID // of the period of the last descriptor
	revision uint64          // of the last descriptor
	since    time.Time       // when it was new
	latest   offered
	used     offered // what the frontend's descriptors have
	changes  []time.Time
}

// offered is what a backend's descriptor offers to clients.
type offered struct {
	points []netdoc.HSIntroPoint
	flow   protover.Set
	inc    uint8
	cgo    bool
	half   bool
}

func (o *offered) same(p *offered) bool {
	return samePoints(o.points, p.points) && o.agrees(p) && o.cgo == p.cgo && o.half == p.half
}

// agrees reports whether both say the same about congestion control.
func (o *offered) agrees(p *offered) bool {
	return o.inc == p.inc && o.flow.Versions("FlowCtrl") == p.flow.Versions("FlowCtrl")
}

func newBalance(ids []ident.Ed25519ID) *balance {
	b := new(balance)
	for _, id := range ids {
		b.backends = append(b.backends, &backend{id: id})
	}
	return b
}

// checkFrontend refuses a frontend that has something else to do.
func checkFrontend(cfg *Config) error {
	if len(cfg.Backends) == 0 {
		return nil
	}
	if cfg.Fleet || len(cfg.Masters) > 0 || len(cfg.Ports) > 0 || len(cfg.Targets) > 0 || cfg.PoW != nil {
		return fault.New(fault.Config, "onion service: a frontend, which has backends, has no ports and no masters, is no fleet, and asks for no proofs of work")
	}
	return checkPeers("backends", cfg.Backends, cfg.Key.ID(), MaxBackends)
}

// points returns the introduction points of all backends, and at most so many.
func (b *balance) points(most int) (out []netdoc.HSIntroPoint) {
	if b.rounds == 0 {
		return nil // some were not asked yet
	}
	var lists [][]netdoc.HSIntroPoint
	for _, e := range b.backends {
		lists = append(lists, e.used.points)
	}
	return slices.Concat(share(lists, most)...)
}

// offerFlow copies the backends' line about congestion control, if all have the same,
// and the one about CGO, if all have it: the client does not know which one it will
// meet.
func (b *balance) offerFlow(inner *netdoc.HSInner) {
	var first *offered
	cgo := true
	for _, e := range b.backends {
		o := &e.used
		if len(o.points) == 0 {
			continue
		}
		cgo = cgo && o.cgo
		if first != nil && !first.agrees(o) {
			return
		}
		if first == nil {
			first = o
		}
	}
	if first != nil {
		inner.FlowControl, inner.SendmeInc, inner.CGO = first.flow, first.inc, cgo && first.inc != 0
	}
}

// halfClose reports whether all backends take HALF_CLOSE.
func (b *balance) halfClose() bool {
	return !slices.ContainsFunc(b.backends, func(e *backend) bool { return len(e.used.points) > 0 && !e.used.half })
}

// offer is what the descriptors say besides their points. A service that is no frontend
// says what the consensus says.
func (b *balance) offer() string {
	if b == nil {
		return ""
	}
	var in netdoc.HSInner
	b.offerFlow(&in)
	return fmt.Sprintf("%s %d %t %t", in.FlowControl.Versions("FlowCtrl"), in.SendmeInc, in.CGO, b.halfClose())
}

// tendBackends looks at the backends' descriptors if it is time to.
func (s *Service) tendBackends(d *netdir.Directory, now time.Time) (wait time.Duration) {
	b := s.balance
	if b.busy {
		return longest
	}
	if now.Before(b.next) {
		return b.next.Sub(now)
	}
	every := balanceEvery
	if s.cfg.Circuits.Testing() {
		every = balanceEveryTesting
	}
	b.busy, b.next = true, now.Add(every+time.Duration(random(int64(every/4))))
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(error) { s.asked() })
		var wg sync.WaitGroup
		slots := make(chan struct{}, maxUploads)
		for _, e := range b.backends {
			slots <- struct{}{}
			wg.Go(func() {
				defer panics.Recover(s.log, s.failed)
				defer func() { <-slots }()
				s.askBackend(d, e)
			})
		}
		wg.Wait()
		s.asked()
	})
	return longest
}

// asked ends a round.
func (s *Service) asked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.balance.busy = false
	s.balance.rounds++
	s.kick()
}

// askBackend fetches one backend's descriptor, and takes over what it offers.
func (s *Service) askBackend(d *netdir.Directory, e *backend) {
	t := d.HSTimes(s.cfg.Circuits.Testing())
	blinded, err := hscrypto.Blind(e.id, t.Period)
	if err != nil {
		s.failed(err)
		return
	}
	replicas, _, spread := d.HSSpread()
	var known uint64
	if e.blinded == blinded {
		known = e.revision // only this goroutine writes it
	}
	got, none, err := s.newest(s.allowed(d.HSFetchRing(t).Responsible(blinded, replicas, spread)), blinded, known)
	var in *netdoc.HSInner
	if got != nil {
		in, err = got.Open(hscrypto.Subcredential(e.id, blinded), nil)
	}
	if err != nil {
		s.log.Debug("a backend's descriptor", "err", err)
		s.failed(fault.New(fault.KindOf(err), "onion service: a backend's descriptor: %w", err))
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case in != nil && (e.blinded != blinded || got.Revision > e.revision):
		e.blinded, e.revision, e.since = blinded, got.Revision, now
		e.latest = offered{s.balance.unclaimed(e, usable(in.Points, s.cfg.Circuits.Testing())), in.FlowControl, in.SendmeInc, in.CGO, in.HalfClose}
	case got == nil && err == nil && none >= goneAnswers, now.Sub(e.since) >= backendStale:
		e.latest = offered{}
	}
	e.follow(now)
}

// unclaimed omits points with the key of one that another backend has already: a backend
// could name them elsewhere, so that nobody finds them.
func (b *balance) unclaimed(of *backend, points []netdoc.HSIntroPoint) []netdoc.HSIntroPoint {
	return slices.DeleteFunc(points, func(p netdoc.HSIntroPoint) bool {
		return slices.ContainsFunc(b.backends, func(e *backend) bool {
			return e != of && slices.ContainsFunc(e.used.points, func(o netdoc.HSIntroPoint) bool { return o.Auth == p.Auth })
		})
	})
}

// follow has the frontend use what the backend offers at last, unless that changes too
// often: each change costs a dozen of uploads.
func (e *backend) follow(now time.Time) {
	if e.used.same(&e.latest) {
		return
	}
	e.changes = slices.DeleteFunc(e.changes, func(t time.Time) bool { return now.Sub(t) >= changeWindow })
	if len(e.changes) < maxChanges {
		e.changes = append(e.changes, now)
		e.used = e.latest
	}
}
