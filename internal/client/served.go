package client

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/pool"
)

// mostServed bounds the circuits that have served: above it, the one that has rested longest closes. It is as many as
// the uploads of eight services.
const mostServed = 128

// served are circuits to directories of onion services that have done what they were for. Nobody uses them again. C tor's
// clients leave them open until they are as old as a used circuit may become, or a new identity is asked for, and
// close them at the next tick of its sweep then; a guard would know a client by a DESTROY after each request.
type served struct {
	mu  sync.Mutex // guards what follows
	all map[closer]rested
}

// closer is a circuit.
type closer interface{ OnClose(func(error)) }

// rested is since when a circuit has rested, zero if it is to close, and how it closes.
type rested struct {
	since time.Time
	close func()
}

// keep takes a circuit over.
func (s *served) keep(c closer, closeIt func()) {
	s.mu.Lock()
	if s.all == nil {
		s.all = map[closer]rested{}
	}
	var first closer
	for k, r := range s.all {
		if first == nil || r.since.Before(s.all[first].since) {
			first = k
		}
	}
	var over func()
	if len(s.all) >= mostServed {
		over = s.all[first].close
		delete(s.all, first)
	}
	s.all[c] = rested{time.Now(), closeIt}
	s.mu.Unlock()
	if over != nil {
		over()
	}
	c.OnClose(func(error) { // at once, if it is closed
		s.mu.Lock()
		_, here := s.all[c]
		delete(s.all, c)
		s.mu.Unlock()
		if here {
			closeIt()
		}
	})
}

// newIdentity has all of them close at the next tick.
func (s *served) newIdentity() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, r := range s.all {
		s.all[c] = rested{close: r.close}
	}
}

// reap closes those that are too old. It is called at each tick.
func (s *served) reap(now time.Time, dirtiness time.Duration) {
	s.mu.Lock()
	var over []func()
	for c, r := range s.all {
		if now.Sub(r.since) >= dirtiness {
			over = append(over, r.close)
			delete(s.all, c)
		}
	}
	s.mu.Unlock()
	for _, f := range over {
		f()
	}
}

// swept is what happens when the pool's clock closes used circuits.
func (c *Client) swept(now time.Time) {
	c.caches.reap(now)
	c.sweeps.tick()
	c.served.reap(now, pool.Dirtiness(c.live.Load().MaxCircuitDirtiness))
}
