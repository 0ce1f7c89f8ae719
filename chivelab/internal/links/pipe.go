package links

import (
	"slices"
	"time"
)

// Fate says what became of a packet.
type Fate uint8

// The fates.
const (
	Passed  Fate = iota
	Lost         // on the way
	Full         // the queue had no room
	Early        // dropped by CoDel, so that the sender slows down
	TooLong      // longer than the MTU
	Fates        // how many there are
)

// Outcome is what became of a packet. Of one that passed, At is when it leaves, which may be later
// than the time of the call that returned it; of others, when it was decided.
type Outcome struct {
	ID   uint64
	Fate Fate
	At   time.Duration
}

// Step is a change of the rules.
type Step struct {
	At    time.Duration
	Rules Rules
}

// waiting is a packet in the queue.
type waiting struct {
	id    uint64
	size  int
	since time.Duration
	luck  luck
}

// Pipe is one direction of a link. Times are since its start, and never go back. At one instant
// the order is: the rules change, packets leave the queue, packets arrive.
type Pipe struct {
	rules  Rules
	steps  []Step // still to come
	dice   dice
	now    time.Duration
	queue  []waiting
	queued int           // bytes in queue
	free   time.Duration // when the packet under way has left
	last   time.Duration // when the last packet in order comes out
	codel  codel
	out    []Outcome
}

// NewPipe returns a direction with rules that change as the steps say. Steps have increasing times.
func NewPipe(rules Rules, steps []Step, seed uint64) (*Pipe, error) {
	if err := rules.Check(); err != nil {
		return nil, err
	}
	steps = slices.Clone(steps)
	for i := range steps {
		if i > 0 && steps[i].At <= steps[i-1].At || steps[i].At < 0 {
			return nil, wrong("at", "%v: the times of steps increase", steps[i].At)
		}
		if err := steps[i].Rules.Check(); err != nil {
			return nil, err
		}
		steps[i].Rules = steps[i].Rules.Defaults()
	}
	return &Pipe{rules: rules.Defaults(), steps: steps, dice: newDice(seed)}, nil
}

// Arrive puts a packet in. The outcomes are those that are known now, of this and of others; they
// are valid until the next call.
func (p *Pipe) Arrive(now time.Duration, id uint64, size int) []Outcome {
	p.out = p.out[:0]
	p.advance(now)
	r := &p.rules
	l := p.dice.draw(r)
	w := waiting{id, size, p.now, l}
	switch {
	case size > r.MTU:
		p.end(id, TooLong, p.now)
	case len(p.queue) == 0 && p.free <= p.now:
		p.codel.idle()
		p.carry(w, p.now)
	case p.queued+size > r.Queue:
		p.end(id, Full, p.now)
	default:
		p.queue = append(p.queue, w)
		p.queued += size
	}
	return p.out
}

// Change gives the pipe other rules from now on, in the place of all steps to come. Outcomes are those until now.
func (p *Pipe) Change(now time.Duration, r Rules) ([]Outcome, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	p.out = p.out[:0]
	p.advance(now)
	p.rules, p.steps = r.Defaults(), nil
	return p.out, nil
}

// Advance returns what was decided until now.
func (p *Pipe) Advance(now time.Duration) []Outcome {
	p.out = p.out[:0]
	p.advance(now)
	return p.out
}

// Next returns when Advance is to be called at the latest; false: not before a packet arrives.
func (p *Pipe) Next() (time.Duration, bool) {
	if len(p.queue) == 0 {
		return 0, false
	}
	next := p.free
	if len(p.steps) > 0 {
		next = min(next, p.steps[0].At)
	}
	return max(next, p.now), true
}

// advance does all that happens until now, in its order.
func (p *Pipe) advance(now time.Duration) {
	for {
		leaves := len(p.queue) > 0
		at := max(p.free, p.now) // a change of the rules never lets a packet leave in the past
		switch {
		case len(p.steps) > 0 && p.steps[0].At <= now && (!leaves || p.steps[0].At <= at):
			p.now = max(p.now, p.steps[0].At)
			p.rules, p.steps = p.steps[0].Rules, p.steps[1:]
		case leaves && at <= now:
			p.now = at
			p.serve(at)
		default:
			p.now = max(p.now, now)
			return
		}
	}
}

// serve takes the next packet from the queue, which has one.
func (p *Pipe) serve(now time.Duration) {
	if p.rules.Discipline == CoDel {
		if w, ok := p.codel.next(p, now); ok {
			p.carry(w, now)
		}
		return
	}
	p.codel = codel{}
	p.carry(p.pop(), now)
}

func (p *Pipe) pop() waiting {
	w := p.queue[0]
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = nil
	}
	p.queued -= w.size
	return w
}

// carry sends a packet over the link, which is free.
func (p *Pipe) carry(w waiting, now time.Duration) {
	r := &p.rules
	done := now
	if r.Rate > 0 {
		done += transmission(w.size, r.Rate)
	}
	p.free = done
	if w.luck.lost {
		p.end(w.id, Lost, done)
		return
	}
	at := done + max(0, r.Delay+w.luck.jitter)
	if w.luck.held > 0 {
		p.end(w.id, Passed, max(at, p.last)+w.luck.held)
		return
	}
	p.last = max(at, p.last)
	p.end(w.id, Passed, p.last)
}

// transmission is how long a packet takes to go out, rounded up.
func transmission(size int, rate int64) time.Duration {
	return time.Duration((int64(size)*8*int64(time.Second) + rate - 1) / rate)
}

func (p *Pipe) end(id uint64, f Fate, at time.Duration) { p.out = append(p.out, Outcome{id, f, at}) }
