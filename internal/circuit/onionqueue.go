package circuit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/handshake"
)

// onionJob is one handshake to do.
type onionJob struct {
	c    *Circuit
	kind *handshake.Kind // nil for a rekey
	hop  *Hop            // of a rekey; nil for a new hop
	cost handshake.Cost
	skin []byte
	at   time.Time
}

// size is what a job counts on its circuit's account while it waits, in bytes.
func (j *onionJob) size() int { return onionJobCost + len(j.skin) }

// onionJobCost is a job without its onionskin.
const onionJobCost = 128

// maxOnionQueue bounds the onionskins that wait, whatever they cost.
const maxOnionQueue = 16384

// onionQueue is the onionskins of one cost that wait; post-quantum ones have their
// own queue, so that they cannot starve the others. Each channel has its list,
// and the workers serve the lists in turn: a flood over one channel delays and
// drops what comes over that channel, and hardly anything else.
type onionQueue struct {
	workers int
	cost    atomic.Int64 // nanoseconds that one took lately (moving average)

	mu      sync.Mutex // guards what follows
	wake    *sync.Cond
	lists   map[*channel.Channel]*onionList // those that are not empty
	turn    *onionList                      // whose turn it is, in a ring of all; nil when nothing waits
	waiting int
	closed  bool
}

// onionList is what waits of one channel. It is an element of a ring.
type onionList struct {
	of         *channel.Channel
	jobs       []onionJob
	prev, next *onionList
}

func newOnionQueue(workers int) *onionQueue {
	q := &onionQueue{workers: max(1, workers), lists: map[*channel.Channel]*onionList{}}
	q.wake = sync.NewCond(&q.mu)
	q.cost.Store(int64(150 * time.Microsecond))
	return q
}

// push queues a job. When those that wait would take longer than delay, one job
// of the channel that has the most waiting is dropped, perhaps this one: the
// newest, which would be served last. It is returned with that wait.
func (q *onionQueue) push(from *channel.Channel, j onionJob, delay time.Duration) (dropped *onionJob, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait = time.Duration(int64(q.waiting) * q.cost.Load() / int64(q.workers))
	if wait > delay || q.waiting >= maxOnionQueue {
		own := 0
		if l := q.lists[from]; l != nil {
			own = len(l.jobs)
		}
		// A channel that has its fair share waiting already cannot push others
		// out; so the search below is not a flood's to cause.
		if own*len(q.lists) >= q.waiting {
			return &j, wait
		}
		worst := q.turn
		for _, l := range q.lists {
			if len(l.jobs) > len(worst.jobs) {
				worst = l
			}
		}
		last := len(worst.jobs) - 1
		d := worst.jobs[last]
		worst.jobs[last] = onionJob{}
		worst.jobs = worst.jobs[:last]
		q.tookLocked(worst)
		dropped = &d
	}
	l := q.lists[from]
	if l == nil {
		l = &onionList{of: from}
		q.lists[from] = l
		q.joinLocked(l)
	}
	l.jobs = append(l.jobs, j)
	q.waiting++
	q.wake.Signal()
	return dropped, wait
}

// pop waits for a job; false when the queue is closed.
func (q *onionQueue) pop() (onionJob, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.turn == nil && !q.closed {
		q.wake.Wait()
	}
	if q.closed {
		return onionJob{}, false
	}
	l := q.turn
	q.turn = l.next
	j := l.jobs[0]
	l.jobs[0] = onionJob{}
	l.jobs = l.jobs[1:]
	q.tookLocked(l)
	return j, true
}

func (q *onionQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
}

// joinLocked puts a list into the ring, last in turn. The caller holds mu.
func (q *onionQueue) joinLocked(l *onionList) {
	if q.turn == nil {
		l.prev, l.next = l, l
		q.turn = l
		return
	}
	l.prev, l.next = q.turn.prev, q.turn
	l.prev.next, l.next.prev = l, l
}

// tookLocked accounts for a job that was taken from l. The caller holds mu.
func (q *onionQueue) tookLocked(l *onionList) {
	q.waiting--
	if len(l.jobs) > 0 {
		return
	}
	delete(q.lists, l.of)
	if l.next == l {
		q.turn = nil
		return
	}
	if q.turn == l {
		q.turn = l.next
	}
	l.prev.next, l.next.prev = l.next, l.prev
}
