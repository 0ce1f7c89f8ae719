package hsservice

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// maxWaiting is how many introductions may wait: 1.3 MB of them, and more clients
	// than connect within a few seconds when a service has just come back.
	maxWaiting = 2048
	// maxWait is how long an introduction waits at most: C tor's number. Its client
	// is likely to have given up by then.
	maxWait = 15 * time.Second

	// openRate and openBurst bound how many introductions are opened in a second, and
	// at once: everybody who knows the address can send some that are worth nothing,
	// and each takes about 50 microseconds of a processor.
	openRate  = 5000
	openBurst = 5000
)

// introduction is an INTRODUCE2 that waits.
type introduction struct {
	p    *point
	body []byte
	at   time.Time
	on   *account.Account // of the circuit on which it came
}

// introductionCost is what one counts on the account beside its body, in bytes.
const introductionCost = 128

// lane has the introductions that wait from one introduction point, the newest last.
type lane struct {
	p       *point
	waiting []introduction
}

// queue has the introductions that wait. The introduction points take turns: a flood
// that comes through one of them does not delay what comes through another. Of one
// point's introductions the newest is next, because during a flood the old ones have
// waited for so long that their clients may be gone.
//
// It has a mutex of its own, so that the reader of a channel does not wait for what the
// service does under its mutex.
type queue struct {
	mu      sync.Mutex
	lanes   []*lane // with something in them; the first one's turn is next
	n       int
	dropped uint64 // since the last call of lost
	counts  *counts
	ready   chan struct{}
}

// add adds an introduction. If too many wait, the oldest of the point with the most is
// dropped.
func (q *queue) add(in introduction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.lanes, func(l *lane) bool { return l.p == in.p })
	if i < 0 {
		i = len(q.lanes)
		q.lanes = append(q.lanes, &lane{p: in.p})
	}
	q.lanes[i].waiting = append(q.lanes[i].waiting, in)
	in.on.Reserve(len(in.body) + introductionCost)
	q.n++
	if q.n > maxWaiting {
		q.drop(slices.MaxFunc(q.lanes, func(a, b *lane) int { return len(a.waiting) - len(b.waiting) }))
	}
	q.wake()
}

// drop drops a lane's oldest introduction.
func (q *queue) drop(l *lane) {
	in := l.waiting[0]
	l.waiting[0] = introduction{}
	l.waiting = l.waiting[1:]
	q.gone(in)
	q.dropped++
	q.counts.rejected.Add(1)
}

// gone notes that an introduction does not wait any more.
func (q *queue) gone(in introduction) {
	q.n--
	in.on.Release(len(in.body) + introductionCost)
}

// wake wakes the goroutine that opens introductions.
func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take takes the introduction whose turn it is, of those whose points may have another
// rendezvous: after returns how long a point has to wait for that. If there is none
// now, take returns how long it takes until there may be one.
func (q *queue) take(now time.Time, after func(*point) time.Duration) (in introduction, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(now)
	wait = longest
	for i, l := range q.lanes {
		if d := after(l.p); d > 0 {
			wait = min(wait, d)
			continue
		}
		end := len(l.waiting) - 1
		in = l.waiting[end]
		l.waiting[end] = introduction{}
		l.waiting = l.waiting[:end]
		q.gone(in)
		q.lanes = slices.Delete(q.lanes, i, i+1)
		if end > 0 {
			q.lanes = append(q.lanes, l)
		}
		return in, 0, true
	}
	return introduction{}, wait, false
}

// forget drops what has waited for too long.
func (q *queue) forget(now time.Time) {
	q.lanes = slices.DeleteFunc(q.lanes, func(l *lane) bool {
		for len(l.waiting) > 0 && now.Sub(l.waiting[0].at) >= maxWait {
			q.drop(l)
		}
		return len(l.waiting) == 0
	})
}

// lost returns how many introductions were dropped since it was called before.
func (q *queue) lost() (n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, q.dropped = q.dropped, 0
	return n
}

// dropPause is the time between two warnings about dropped introductions.
const dropPause = 10 * time.Minute

// warnDropped tells the operator that clients cannot connect because there are too many.
func (s *Service) warnDropped(now time.Time) {
	if now.Sub(s.toldDrops) < dropPause {
		return
	}
	if n := s.waiting.lost(); n > 0 {
		s.toldDrops = now
		s.log.Warn("more clients ask for the onion service than it can answer", "dropped", n)
	}
}

// introduced takes an INTRODUCE2 on the channel's reader. What cannot be read is
// the client's doing, not the introduction point's, which sends it on unread: so
// it is no violation.
func (s *Service) introduced(p *point, on *account.Account, body []byte) error {
	s.counts.introductions.Add(1)
	s.waiting.add(introduction{p, bytes.Clone(body), time.Now(), on})
	return nil
}

// introduce opens introductions, one after the other, and begins a rendezvous for
// each that is good.
func (s *Service) introduce() {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		if s.opening.Wait(s.ctx) != nil {
			return // it is closed
		}
		in, wait, ok := s.next(time.Now())
		if ok {
			if err := s.take(in); err != nil {
				s.counts.rejected.Add(1)
				s.log.Debug("an introduction was dropped", "err", err)
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-s.ctx.Done():
			return
		case <-s.waiting.ready:
		case <-timer.C:
		}
	}
}

// next returns the introduction whose turn it is, or how long it takes until there
// may be one.
func (s *Service) next(now time.Time) (in introduction, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.take(now, func(p *point) time.Duration { _, wait := s.place(p, false, now); return wait })
}

func (s *Service) take(in introduction) error {
	m, err := s.decrypt(in.p, in.body, time.Now())
	if err != nil {
		return err
	}
	ctx, u, err := s.begin(in.p, m.strange, time.Now())
	if err != nil {
		return err
	}
	s.wg.Go(func() {
		defer panics.Recover(s.log, nil)
		defer s.end(u)
		if err := s.meet(ctx, m); err != nil {
			s.counts.failed.Add(1)
			s.log.Debug("rendezvous", "err", err)
		}
	})
	return nil
}
