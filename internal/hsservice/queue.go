package hsservice

import (
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/account"
)

const (
	// maxWaiting is how many introductions may wait to be opened: 1.3 MB of them, and more
	// clients than connect within a few seconds when a service has just come back.
	maxWaiting = 2048
	// maxWait is how long an introduction waits at most: C tor's number. Its client
	// is likely to have given up by then.
	maxWait = 15 * time.Second
	// sweepEvery is the least time between two searches for such introductions.
	sweepEvery = 50 * time.Millisecond

	// openRate and openBurst bound how many introductions are opened in a second, and
	// at once: everybody who knows the address can send some that are worth nothing,
	// and each takes about 50 microseconds of a processor. A proof of work counts as one
	// more if its solution is checked.
	openRate  = 5000
	openBurst = 5000
	// openRateWork is openRate of a service that asks for proofs of work: before an
	// introduction is open, nobody knows what effort its client has made. It is most of
	// a processor.
	openRateWork = 15000
)

// mayOpen is how many introductions a service opens in a second.
func mayOpen(asksWork bool) rate.Limit {
	if asksWork {
		return openRateWork
	}
	return openRate
}

// introduction is an INTRODUCE2 that waits.
type introduction struct {
	p      *point
	body   []byte
	at     time.Time
	on     *account.Account // of the circuit on which it came
	effort uint32           // of its proof of work, when it is opened
	m      *rendRequest     // what it says, when it is opened; then there is no body
}

// What one counts on the account, in bytes: beside its body, or when it is opened.
const (
	introductionCost = 128
	openedCost       = 1024
)

func (in *introduction) cost() int {
	if in.m != nil {
		return openedCost
	}
	return len(in.body) + introductionCost
}

// lane has the introductions of one effort that wait from one introduction point, the
// newest last.
type lane struct {
	p       *point
	effort  uint32
	waiting []introduction
}

// queue has the introductions that wait. The greatest effort is next; before they are
// opened, all have none. The introduction points take turns: a flood that comes through
// one of them does not delay what comes through another. Of one point's introductions the
// newest is next, because during a flood the old ones have waited for so long that their
// clients may be gone.
//
// It has a mutex of its own, so that the reader of a channel does not wait for what the
// service does under its mutex.
type queue struct {
	most   int                // that may wait
	onDrop func(introduction) // called under the mutex; may be nil

	mu      sync.Mutex // guards lanes, n, sweep and dropped
	lanes   []*lane    // with something in them; greater efforts first, and of these the one whose turn is next
	n       int
	sweep   time.Time // when to look again for what has waited for too long
	dropped uint64    // since the last call of lost
	counts  *counts
	ready   chan struct{}
}

// classLocked returns where the lanes of an effort begin and end.
func (q *queue) classLocked(effort uint32) (from, to int) {
	from = sort.Search(len(q.lanes), func(i int) bool { return q.lanes[i].effort <= effort })
	for to = from; to < len(q.lanes) && q.lanes[to].effort == effort; to++ {
	}
	return from, to
}

// add adds an introduction. If too many wait, the oldest of the least effort is dropped,
// of the point with the most.
func (q *queue) add(in introduction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from, to := q.classLocked(in.effort)
	i := slices.IndexFunc(q.lanes[from:to], func(l *lane) bool { return l.p == in.p })
	if i += from; i < from {
		i = to
		q.lanes = slices.Insert(q.lanes, i, &lane{p: in.p, effort: in.effort})
	}
	q.lanes[i].waiting = append(q.lanes[i].waiting, in)
	in.on.Reserve(in.cost())
	q.n++
	if q.n > q.most {
		from, to := q.classLocked(q.lanes[len(q.lanes)-1].effort)
		l := slices.MaxFunc(q.lanes[from:to], func(a, b *lane) int { return len(a.waiting) - len(b.waiting) })
		if q.dropLocked(l); len(l.waiting) == 0 {
			q.lanes = slices.DeleteFunc(q.lanes, func(o *lane) bool { return o == l })
		}
	}
	q.wake()
}

// dropLocked drops a lane's oldest introduction.
func (q *queue) dropLocked(l *lane) {
	in := l.waiting[0]
	l.waiting[0] = introduction{}
	l.waiting = l.waiting[1:]
	q.releaseLocked(in)
	q.dropped++
	q.counts.rejected.Add(1)
	if q.onDrop != nil {
		q.onDrop(in)
	}
}

// releaseLocked notes that an introduction does not wait any more.
func (q *queue) releaseLocked(in introduction) {
	q.n--
	in.on.Release(in.cost())
}

// length returns how many introductions wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// wake wakes the goroutine that opens introductions.
func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take takes the introduction whose turn it is, of those with the greatest effort whose
// points may have another rendezvous: after returns how long a point has to wait for that.
// If there is none now, take returns how long it takes until there may be one.
func (q *queue) take(now time.Time, after func(*point, uint32) time.Duration) (in introduction, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked(now)
	wait = longest
	for i := 0; i < len(q.lanes) && q.lanes[i].effort == q.lanes[0].effort; {
		l := q.lanes[i]
		end := len(l.waiting) - 1
		if now.Sub(l.waiting[end].at) >= maxWait { // all of them, and it was not swept yet
			q.emptyLocked(l)
			q.lanes = slices.Delete(q.lanes, i, i+1)
			continue
		}
		if d := after(l.p, l.effort); d > 0 {
			wait = min(wait, d)
			i++
			continue
		}
		in = l.waiting[end]
		l.waiting[end] = introduction{}
		l.waiting = l.waiting[:end]
		q.releaseLocked(in)
		_, to := q.classLocked(l.effort)
		q.lanes = slices.Delete(q.lanes, i, i+1)
		if end > 0 {
			q.lanes = slices.Insert(q.lanes, to-1, l)
		}
		return in, 0, true
	}
	return introduction{}, wait, false
}

// forgetLocked drops what has waited for too long.
func (q *queue) forgetLocked(now time.Time) {
	if now.Before(q.sweep) && q.sweep.Sub(now) <= maxWait { // else the clock was set back
		return
	}
	next := now.Add(maxWait)
	q.lanes = slices.DeleteFunc(q.lanes, func(l *lane) bool {
		for len(l.waiting) > 0 && now.Sub(l.waiting[0].at) >= maxWait {
			q.dropLocked(l)
		}
		if len(l.waiting) == 0 {
			return true
		}
		if end := l.waiting[0].at.Add(maxWait); end.Before(next) {
			next = end
		}
		return false
	})
	if q.sweep = now.Add(sweepEvery); next.After(q.sweep) {
		q.sweep = next
	}
}

// emptyLocked drops all of a lane.
func (q *queue) emptyLocked(l *lane) {
	for len(l.waiting) > 0 {
		q.dropLocked(l)
	}
}

// state returns how many wait, and the greatest and the least effort of them.
func (q *queue) state() (n int, greatest, least uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return 0, 0, 0
	}
	return q.n, q.lanes[0].effort, q.lanes[len(q.lanes)-1].effort
}

// takeDropped returns how many introductions were dropped since it was called before.
func (q *queue) takeDropped() (n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, q.dropped = q.dropped, 0
	return n
}

// dropPause is the time between two warnings about dropped introductions.
const dropPause = 10 * time.Minute

// warnDroppedLocked tells the operator that clients cannot connect because there are too many.
func (s *Service) warnDroppedLocked(now time.Time) {
	if now.Sub(s.toldDrops) < dropPause {
		return
	}
	if n := s.waiting.takeDropped() + s.work.queue.takeDropped(); n > 0 {
		s.toldDrops = now
		s.log.Warn("more clients ask for the onion service than it can answer", "dropped", n)
	}
}
