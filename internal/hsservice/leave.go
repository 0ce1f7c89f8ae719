package hsservice

import (
	"context"
	"time"
)

// A host leaves its fleet in steps, so that no client is lost on the way:
//
//  1. The descriptor goes out without its introduction points (Withdraw).
//  2. For settleTime the points stay: clients that have just fetched the old descriptor are
//     met as always.
//  3. The points close. A client with the old descriptor is refused by the relay at once,
//     and asks another host.
//  4. Introductions that came before are answered, and clients that were met have time
//     to open a stream. Open streams go on until they end, for graceTime at most.
//
// A host that knows of no other one does none of this: nobody could serve its clients
// while it waits, so it should be gone, and back, soon.
const (
	// withdrawTime bounds the first step: directories may be down.
	withdrawTime = 30 * time.Second
	settleTime   = 5 * time.Second
	// graceTime is as long as C tor's ShutdownWaitLength.
	graceTime = 30 * time.Second
	// meetTime is how long a rendezvous under way may take that began before the points
	// closed.
	meetTime = 10 * time.Second
	// unusedTime is how long a client may take to open its first stream, and quietTime how
	// long a circuit goes on after its last stream: one request follows another.
	unusedTime = 5 * time.Second
	quietTime  = 2 * time.Second
	// leaveLook is the time between two looks at what is still open.
	leaveLook = 200 * time.Millisecond
)

// Leave has this host leave its fleet: new clients go to the other hosts, and those that
// it has may finish. It returns when it has no clients any more, or after about a minute,
// or when ctx ends; Close must follow. It does nothing if there is no fleet, or if no other
// host is known. An error says that the points are still in the descriptor.
func (s *Service) Leave(ctx context.Context) error {
	if s.fleet == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	err := s.Withdraw(limited)
	if !s.hasOthers(time.Now()) {
		return err
	}
	if err == nil {
		s.wait(ctx, settleTime)
	}
	if ctx.Err() != nil || !s.closePoints() {
		return err
	}
	looks := 0 // in a row at which nothing was left: an introduction may be between two states
	for began := time.Now(); time.Since(began) < graceTime; {
		if !s.wait(ctx, leaveLook) {
			return err
		}
		if looks++; !s.finished(time.Now()) {
			looks = 0
		}
		if looks == 2 {
			return err
		}
	}
	s.log.Info("the time to leave the fleet is over: connections that are open end now", "streams", s.conns.Load())
	return err
}

// wait waits; false if the service or ctx has ended.
func (s *Service) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}

// hasOthers reports whether other hosts of the fleet are known.
func (s *Service) hasOthers(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.descs {
		for _, e := range x.view.Others {
			if e.Fresh(now) {
				return true
			}
		}
	}
	return false
}

// closePoints closes all introduction points for good; false if the service is closed.
func (s *Service) closePoints() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.fleet.pointless = true
	for _, p := range s.points {
		s.endLocked(p)
	}
	s.points = nil
	return true
}

// finished closes the circuits whose clients are done, and reports whether there is
// nothing left to wait for.
func (s *Service) finished(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	busy := s.waiting.length() > 0 || s.work.queue.length() > 0
	for _, u := range s.pending {
		busy = busy || now.Sub(u.since) < meetTime
	}
	s.closeUnusedLocked(now) // notes which circuits have no streams
	for c, r := range s.clients {
		if r.mayClose(now) {
			delete(s.clients, c) // it is not chosen twice
			s.destroy(c)
		}
	}
	return !busy && len(s.clients) == 0
}

// mayClose reports whether the client of a circuit has had time for another stream.
func (r *clientCircuit) mayClose(now time.Time) bool {
	if r.idle.IsZero() {
		return false
	}
	if r.used.Load() {
		return now.Sub(r.idle) >= quietTime
	}
	return now.Sub(r.idle) >= unusedTime
}
