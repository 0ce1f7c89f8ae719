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
	// maxStrange is how many of them may be to points that are not in the consensus. An
	// attacker can make up as many as he likes that never answer. A client that has
	// a newer or older consensus than the service may name one, too.
	maxStrange = 16
)

// underWay is a rendezvous to which a circuit is being built.
type underWay struct {
	through *point // the introduction point
	strange bool   // the rendezvous point is not in the consensus
	since   time.Time
	cancel  context.CancelCauseFunc
}

// place says whether there is a place for another rendezvous through a point, or how
// long that takes. Of those to strange points, only one that has been under way for
// rendPatience or more makes room for another strange one. If all places are taken, one
// rendezvous makes room, victim:
//
//   - the one that has been under way for the longest time, if that is rendPatience or
//     more;
//   - or the oldest of the introduction point that has the most places, if it has at
//     least two more than p. So a flood through one point does not take the places of
//     the others.
func (s *Service) place(p *point, strange bool, now time.Time) (victim *underWay, wait time.Duration) {
	if strange {
		n := 0
		for _, u := range slices.Backward(s.meeting) {
			if u.strange {
				victim = u
				n++
			}
		}
		if n >= maxStrange {
			return victim, max(0, rendPatience-now.Sub(victim.since))
		}
		victim = nil
	}
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
func (s *Service) begin(p *point, strange bool, now time.Time) (context.Context, *underWay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim, wait := s.place(p, strange, now)
	if wait > 0 {
		return nil, nil, errNoPlace
	}
	if victim != nil {
		s.meeting = slices.DeleteFunc(s.meeting, func(u *underWay) bool { return u == victim })
		victim.cancel(errMadeRoom)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	u := &underWay{p, strange, now, cancel}
	s.meeting = append(s.meeting, u)
	return ctx, u, nil
}

var errNoPlace = fault.New(fault.Resource, "too many rendezvous are under way")

var errMadeRoom = fault.New(fault.Resource, "the rendezvous made room for another")

func (s *Service) end(u *underWay) {
	u.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meeting = slices.DeleteFunc(s.meeting, func(o *underWay) bool { return o == u })
	s.waiting.wake()
}
