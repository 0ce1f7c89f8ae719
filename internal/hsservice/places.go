package hsservice

import (
	"context"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

const (
	// maxRendezvous is how many circuits to rendezvous points may be under way. A client
	// can name a point that never answers: if there are as many, one makes room for
	// another, as Service.place says.
	maxRendezvous = 64
	rendPatience  = 4 * time.Second
)

// underWay is a rendezvous to which a circuit is being built.
type underWay struct {
	through *point // the introduction point
	since   time.Time
	cancel  context.CancelCauseFunc
}

// place says whether there is a place for another rendezvous through a point, or how
// long that takes. If all places are taken, one rendezvous makes room, victim:
//
//   - the one that has been under way for the longest time, if that is rendPatience or
//     more;
//   - or the oldest of the introduction point that has the most places, if it has at
//     least two more than p. So a flood through one point does not take the places of
//     the others.
func (s *Service) place(p *point, now time.Time) (victim *underWay, wait time.Duration) {
	if len(s.meeting) < maxRendezvous {
		return nil, 0
	}
	oldest := s.meeting[0]
	if wait = rendPatience - now.Sub(oldest.since); wait <= 0 {
		return oldest, 0
	}
	has := map[*point]int{}
	for _, u := range s.meeting {
		has[u.through]++
	}
	for _, u := range s.meeting { // the oldest first
		if n := has[u.through]; n >= has[p]+2 && (victim == nil || n > has[victim.through]) {
			victim = u
		}
	}
	if victim != nil {
		wait = 0
	}
	return victim, wait
}

// begin takes a place among the rendezvous under way; end gives it back.
func (s *Service) begin(p *point, now time.Time) (context.Context, *underWay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim, wait := s.place(p, now)
	if wait > 0 {
		return nil, nil, fault.New(fault.Resource, "%d rendezvous are under way", maxRendezvous)
	}
	if victim != nil {
		s.meeting = slices.DeleteFunc(s.meeting, func(u *underWay) bool { return u == victim })
		victim.cancel(errMadeRoom)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	u := &underWay{p, now, cancel}
	s.meeting = append(s.meeting, u)
	return ctx, u, nil
}

var errMadeRoom = fault.New(fault.Resource, "the rendezvous made room for another")

func (s *Service) end(u *underWay) {
	u.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meeting = slices.DeleteFunc(s.meeting, func(o *underWay) bool { return o == u })
	s.waiting.wake()
}
