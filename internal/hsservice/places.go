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
	// another, as Service.placeLocked says.
	maxRendezvous = 64
	rendPatience  = 4 * time.Second
	// maxStrange is how many of them may be to points that are not in the consensus. An
	// attacker can make up any number of them that never answer. A client that has
	// a newer or older consensus than the service may name one, too.
	maxStrange = 16
	// maxWithWork is how many more may be under way for clients with a proof of work, and
	// maxCheap how many there are, of all kinds, when clients with less effort than the
	// service suggests have to wait. This one is C tor's, which has no other bound.
	maxWithWork = 192
	maxCheap    = 16
)

// wish is what a rendezvous is for. place decides whether it may begin now.
type wish struct {
	through *point // the introduction point
	strange bool   // the rendezvous point is not in the consensus
	effort  uint32 // of the client's proof of work
}

// pendingRend is a rendezvous to which a circuit is being built.
type pendingRend struct {
	wish
	since  time.Time
	cancel context.CancelCauseFunc
}

// placeLocked says whether there is a place for another rendezvous, or how long that takes.
// Those with a proof of work have places of their own, and so have, among all, those to
// strange points. If all these places are taken, one rendezvous makes room, victim:
//
//   - one of a lesser effort, the least;
//   - or the one that has been under way for the longest time, if that is rendPatience or
//     more;
//   - or, if the place is not one for strangers, the oldest of the introduction point that
//     has the most places, if it has at least two more than the new one's, and no greater
//     effort. So a flood through one point does not take the places of the others.
func (s *Service) placeLocked(w wish, now time.Time) (victim *pendingRend, wait time.Duration) {
	if w.strange {
		victim, wait = s.makeRoomLocked(maxStrange, now, w, func(u *pendingRend) bool { return u.strange })
		if victim != nil || wait > 0 {
			return victim, wait
		}
	}
	most := maxRendezvous
	if w.effort > 0 {
		most = maxWithWork
	}
	peer := func(u *pendingRend) bool { return (u.effort > 0) == (w.effort > 0) }
	if victim, wait = s.makeRoomLocked(most, now, w, peer); wait == 0 {
		return victim, 0
	}
	has := map[*point]int{}
	for _, u := range s.pending {
		if peer(u) {
			has[u.through]++
		}
	}
	for _, u := range s.pending { // the oldest first
		n := has[u.through]
		if peer(u) && u.effort <= w.effort && n >= has[w.through]+2 && (victim == nil || n > has[victim.through]) {
			victim = u
		}
	}
	if victim != nil {
		wait = 0
	}
	return victim, wait
}

// makeRoomLocked chooses the rendezvous that makes room among those that share most places, or says how
// long it takes until one does. If it returns no victim and no wait, there is room.
func (s *Service) makeRoomLocked(most int, now time.Time, w wish, shares func(*pendingRend) bool) (victim *pendingRend, wait time.Duration) {
	n := 0
	var oldest *pendingRend
	for _, u := range s.pending { // the oldest first
		if !shares(u) {
			continue
		}
		if n++; oldest == nil {
			oldest = u
		}
		if u.effort < w.effort && (victim == nil || u.effort < victim.effort) {
			victim = u
		}
	}
	switch {
	case n < most:
		return nil, 0
	case victim != nil:
		return victim, 0
	}
	if wait = rendPatience - now.Sub(oldest.since); wait > 0 {
		return nil, wait
	}
	return oldest, 0
}

// takePlace takes a place among the rendezvous under way; leavePlace gives it back.
func (s *Service) takePlace(w wish, now time.Time) (context.Context, *pendingRend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim, wait := s.placeLocked(w, now)
	if wait > 0 {
		return nil, nil, errNoPlace
	}
	if victim != nil {
		s.pending = slices.DeleteFunc(s.pending, func(u *pendingRend) bool { return u == victim })
		victim.cancel(errMadeRoom)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	u := &pendingRend{w, now, cancel}
	s.pending = append(s.pending, u)
	return ctx, u, nil
}

var errNoPlace = fault.New(fault.Resource, "too many rendezvous are under way")

var errMadeRoom = fault.New(fault.Resource, "the rendezvous made room for another")

func (s *Service) leavePlace(u *pendingRend) {
	u.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(o *pendingRend) bool { return o == u })
	s.waiting.wake()
}
