package links

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// maxHeld bounds the bytes on a line, queue and way together. A link that would have more is one
// that nobody can emulate here: what does not fit counts as late.
const maxHeld = 256 << 20

// Line is a Pipe with a clock: it carries packets and hands each to deliver when it leaves.
type Line struct {
	deliver func([]byte)
	base    time.Time
	clock   clock
	cancel  context.CancelFunc
	loop    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	pipe   *Pipe
	held   map[uint64][]byte
	bytes  int
	due    dueHeap
	next   time.Duration // when run looks again
	last   uint64        // the ID of the last packet
	late   Lateness
	counts [Fates]uint64
	closed bool
}

// newLine starts a direction. deliver gets one packet at a time, keeps it if it wants, and must not
// wait. Close ends the line.
func newLine(rules Rules, steps []Step, seed uint64, deliver func([]byte), newClock func() clock) (*Line, error) {
	p, err := NewPipe(rules, steps, seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Line{deliver: deliver, base: time.Now(), clock: newClock(), cancel: cancel, pipe: p, held: map[uint64][]byte{}, next: never}
	l.loop.Go(panics.Contain(nil, func(error) { cancel() }, func() { l.run(ctx) }))
	return l, nil
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// Send puts a packet in, which belongs to the line from then on.
func (l *Line) Send(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.bytes+len(b) > maxHeld {
		l.late.Overrun++
		return
	}
	l.last++
	l.held[l.last] = b
	l.bytes += len(b)
	l.settleLocked(l.pipe.Arrive(time.Since(l.base), l.last, len(b)))
	if l.nextLocked() < l.next {
		l.clock.wake()
	}
}

// Change gives the line other rules from now on, in the place of all steps to come. What has left the queue is not
// changed by them.
func (l *Line) Change(r Rules) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, err := l.pipe.Change(time.Since(l.base), r)
	if err != nil {
		return err
	}
	l.settleLocked(out)
	l.clock.wake()
	return nil
}

// Lateness says how late packets have left so far.
func (l *Line) Lateness() Lateness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// Count returns how many packets had a fate.
func (l *Line) Count(f Fate) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[f]
}

// Close drops what is on the line, and ends it. No packet is delivered after it has returned. It
// must not be called by deliver.
func (l *Line) Close() {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.cancel()
	if first {
		l.clock.wake()
	}
	l.mu.Unlock()
	l.loop.Wait()
	if first {
		l.clock.close()
	}
}

// settleLocked takes over what the pipe has decided.
func (l *Line) settleLocked(out []Outcome) {
	for _, o := range out {
		l.counts[o.Fate]++
		b := l.held[o.ID]
		delete(l.held, o.ID)
		if o.Fate == Passed {
			heap.Push(&l.due, dueItem{o.At, o.ID, b})
		} else {
			l.bytes -= len(b)
		}
	}
}

// nextLocked returns when there is something to do.
func (l *Line) nextLocked() time.Duration {
	next := never
	if len(l.due) > 0 {
		next = l.due[0].at
	}
	if at, ok := l.pipe.Next(); ok {
		next = min(next, at)
	}
	return next
}

func (l *Line) run(ctx context.Context) {
	l.clock.begin()
	for ctx.Err() == nil {
		l.mu.Lock()
		now := time.Since(l.base)
		l.settleLocked(l.pipe.Advance(now))
		if len(l.due) > 0 && l.due[0].at <= now {
			d := heap.Pop(&l.due).(dueItem)
			l.bytes -= len(d.b)
			l.late.add(now - d.at)
			l.mu.Unlock()
			l.deliver(d.b)
			continue
		}
		l.next = l.nextLocked()
		next := l.next
		l.mu.Unlock()
		if next == never {
			next = now + time.Hour
		}
		if left := next - time.Since(l.base); left > 0 {
			l.clock.wait(ctx, left)
		}
	}
}

// dueItem is a packet on its way.
type dueItem struct {
	at time.Duration
	id uint64
	b  []byte
}

// dueHeap has the next packet first; of two at the same time the one that came first.
type dueHeap []dueItem

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].id < h[j].id
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueItem)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = dueItem{}
	*h = old[:len(old)-1]
	return x
}
