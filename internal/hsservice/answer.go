package hsservice

import (
	"bytes"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/panics"
)

// A client that comes to the service takes it through these steps (rend-spec-v3):
//
//	establish introduction points         launchLocked, establish     points.go
//	publish descriptors that name them    tendDescriptors, publish    publish.go, upload.go
//	queue an INTRODUCE2                   queueIntroduce2             answer.go, queue.go
//	open it, and check all of it          openOne, open               introduce.go
//	order it by its proof of work, if any work.add, work.take         work.go
//	accept it, and take a place           accept, takePlace           introduce.go, places.go
//	reach the rendezvous point            reachRendezvous             introduce.go
//	join: answer with RENDEZVOUS1         join                        introduce.go
//	serve the client's streams            HandleStream                streams.go
//
// One goroutine, serveIntroductions, takes the steps from the queue to the place. Each rendezvous
// has its own: it owns the circuit until the client has joined, and gives the place back.

// queueIntroduce2 takes an INTRODUCE2 on the channel's reader. What cannot be read is
// the client's doing, not the introduction point's, which sends it on unread: so
// it is no violation.
func (s *Service) queueIntroduce2(p *point, on *account.Account, body []byte) error {
	s.counts.introductions.Add(1)
	s.waiting.add(introduction{p: p, body: bytes.Clone(body), at: time.Now(), on: on})
	return nil
}

// serveIntroductions opens introductions, one after the other, and begins a rendezvous for
// each that is good: at once, or, if the service asks for proofs of work, in the order
// of their efforts.
func (s *Service) serveIntroductions() {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		if s.opening.Wait(s.ctx) != nil {
			return // it is closed
		}
		now := time.Now()
		wait := s.answerOpened(now)
		in, next, ok := s.next(now)
		if ok {
			if err := s.openOne(in); err != nil {
				s.noteDropped(err)
			}
			continue
		}
		timer.Reset(min(wait, next))
		select {
		case <-s.ctx.Done():
			return
		case <-s.waiting.ready:
		case <-timer.C:
		}
	}
}

func (s *Service) noteDropped(err error) {
	s.counts.rejected.Add(1)
	s.log.Debug("an introduction was dropped", "err", err)
}

// next returns the introduction that must be opened now, or how long it takes until there
// may be one.
func (s *Service) next(now time.Time) (in introduction, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.take(now, func(p *point, _ uint32) time.Duration {
		if s.asksWork() {
			return 0 // its effort decides, and is not known yet
		}
		_, wait := s.placeLocked(wish{through: p}, now)
		return wait
	})
}

// openOne opens an introduction, and answers it or has it wait for its turn.
func (s *Service) openOne(in introduction) error {
	now := time.Now()
	m, err := s.open(in.p, in.body, now)
	if err != nil {
		return err
	}
	in.m, in.body = m, nil
	if !s.asksWork() {
		return s.answer(in, now)
	}
	in.effort, in.at = m.effort, now
	s.work.add(in)
	return nil
}

// answer begins a rendezvous for an introduction.
func (s *Service) answer(in introduction, now time.Time) error {
	if err := s.accept(in.p, in.m, now); err != nil {
		return err
	}
	ctx, u, err := s.takePlace(in.m.wish(in.p), now)
	if err != nil {
		return err
	}
	s.wg.Go(func() {
		defer panics.Recover(s.log, nil)
		defer s.leavePlace(u)
		if err := s.rendezvous(ctx, in.m); err != nil {
			s.counts.failed.Add(1)
			s.log.Debug("rendezvous", "err", err)
		}
	})
	return nil
}

// answerOpened begins the rendezvous of introductions that were opened, as many as may be now. It
// returns how long it takes until there may be more.
func (s *Service) answerOpened(now time.Time) (wait time.Duration) {
	for {
		in, wait, ok := s.worthiest(now)
		if !ok {
			return wait
		}
		if err := s.answer(in, now); err != nil {
			s.noteDropped(err)
		}
	}
}

// worthiest returns the introduction with the greatest effort, if it may have a rendezvous
// now, or how long it takes until it may.
func (s *Service) worthiest(now time.Time) (in introduction, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work.take(now, func(p *point, effort uint32) time.Duration {
		if s.work.cheap(effort) && len(s.pending) >= maxCheap {
			return longest // the end of one wakes us
		}
		_, wait := s.placeLocked(wish{through: p, effort: effort}, now)
		return wait
	})
}
