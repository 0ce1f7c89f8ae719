package hsservice

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// balanceEvery is the time between two looks at the backends' descriptors, and so
	// the least time between two descriptors; in networks for tests it is shorter.
	balanceEvery, balanceEveryTesting = time.Minute, 10 * time.Second
	// goneAnswers is how many directories must say that they have no descriptor of a
	// backend until it counts as down.
	goneAnswers = 2
)

// frontend is what makes a service a frontend.
type frontend struct {
	*hsfleet.Frontend
	busy bool
	next time.Time // when to look at the backends
}

// checkFrontend refuses a frontend that has something else to do.
func checkFrontend(cfg *Config) error {
	if len(cfg.Backends) == 0 {
		return nil
	}
	if cfg.Fleet || len(cfg.Masters) > 0 || len(cfg.Ports) > 0 || len(cfg.Targets) > 0 || cfg.PoW != nil {
		return fault.New(fault.Config, "onion service: a frontend, which has backends, has no ports and no masters, is no fleet, and asks for no proofs of work")
	}
	return checkPeers("backends", cfg.Backends, cfg.Key.ID(), hsfleet.MaxBackends)
}

// offer is what the descriptors say besides their points: nothing of their own if the service is
// no frontend.
func (f *frontend) offer() string {
	if f == nil {
		return ""
	}
	return f.Offer()
}

// tendBackendsLocked looks at the backends' descriptors if it is time to.
func (s *Service) tendBackendsLocked(d *netdir.Directory, now time.Time) (wait time.Duration) {
	b := s.frontend
	if b.busy {
		return longest
	}
	if now.Before(b.next) {
		return b.next.Sub(now)
	}
	every := balanceEvery
	if s.cfg.Network.Testing() {
		every = balanceEveryTesting
	}
	b.busy, b.next = true, now.Add(every+time.Duration(random(int64(every/4))))
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(error) { s.noteBackendAsked() })
		var wg sync.WaitGroup
		slots := make(chan struct{}, maxUploads)
		for _, e := range b.Backends {
			slots <- struct{}{}
			wg.Go(func() {
				defer panics.Recover(s.log, s.noteProblem)
				defer func() { <-slots }()
				s.askBackend(d, e)
			})
		}
		wg.Wait()
		s.noteBackendAsked()
	})
	return longest
}

// noteBackendAsked ends a round.
func (s *Service) noteBackendAsked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frontend.busy = false
	s.frontend.EndRound()
	s.kick()
}

// askBackend fetches one backend's descriptor, and takes over what it offers.
func (s *Service) askBackend(d *netdir.Directory, e *hsfleet.Backend) {
	t := d.HSTimes(s.cfg.Network.Testing())
	blinded, err := hscrypto.Blind(e.ID, t.Period)
	if err != nil {
		s.noteProblem(err)
		return
	}
	replicas, _, spread := d.HSSpread()
	known := e.Known(blinded) // only this goroutine writes it
	got, none, err := s.newest(s.allowed(d.HSFetchRing(t).Responsible(blinded, replicas, spread)), blinded, known)
	var in *netdoc.HSInner
	if got != nil {
		in, err = got.Open(hscrypto.Subcredential(e.ID, blinded), nil)
	}
	if err != nil {
		s.log.Debug("a backend's descriptor", "err", err)
		s.noteProblem(fault.New(fault.KindOf(err), "onion service: a backend's descriptor: %w", err))
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if in != nil {
		s.frontend.Learn(e, blinded, got.Revision, in, hsfleet.Usable(in.Points, s.cfg.Network.Testing()), now)
		return
	}
	s.frontend.Missed(e, got == nil && err == nil && none >= goneAnswers, now)
}
