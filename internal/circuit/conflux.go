package circuit

import (
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
)

// ConfluxSet is a conflux set (proposal 329): circuits that end at the same hop and
// carry the same streams. Messages of streams are numbered over all legs; a
// sender that changes to another leg says in SWITCH how many numbers that leg has
// missed, and the receiver keeps messages that come too early.
//
// The streams belong to the first leg's hop.
type ConfluxSet struct {
	nonce [32]byte
	now   func() time.Time

	mu     sync.Mutex     // guards what follows, and the order of sent messages
	legs   []*leg         // replaced whole, with rmu held too
	cur    *leg           // the leg on which messages are sent
	sent   uint64         // number of the last message sent on the set
	ux     cell.ConfluxUX // what the other end asks of the choice of legs
	closed bool

	rmu       sync.Mutex    // guards what follows; held while streams receive messages, so locked before mu
	delivered uint64        // number of the last message given to a stream
	early     []*earlyQueue // of messages that came before their turn: one for each leg, also of legs that were lost
	waiting   int           // messages in them
	fewer     bool          // a leg was lost, and the set goes on without it

	wmu     sync.Mutex // guards what follows; innermost
	waiters []*Waiter
}

// leg is one circuit of a set.
type leg struct {
	hop  *Hop
	rtt  time.Duration // from the handshake that linked the leg
	sent uint64        // number of the last message sent on this leg; guarded by mu
	last time.Time     // when that was; guarded by mu
	recv uint64        // number of the last message received on it; guarded by rmu
	owed []cell.Sendme // delayed SENDMEs, in their order; guarded by rmu

	early *earlyQueue // one of the set's; nil: nothing came early so far; guarded by rmu
}

func newConfluxSet(nonce [32]byte, now func() time.Time) *ConfluxSet {
	return &ConfluxSet{nonce: nonce, now: now}
}

// add makes l a leg. When one leg closes, all are closed: see drop for the exception.
func (s *ConfluxSet) add(l *leg) error {
	if err := s.join(l); err != nil {
		return err
	}
	// Close looks for a set. If it has looked already, it was too early for this one.
	if c := l.hop.c; c.closing() {
		s.legClosed(l.hop, c.Err())
	}
	return nil
}

func (s *ConfluxSet) join(l *leg) error {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Closed, "conflux: the set is closed")
	}
	if len(s.legs) > 0 && s.legs[0].hop.info.relay() != l.hop.info.relay() {
		return fault.New(fault.Local, "conflux: the legs end at different relays")
	}
	s.legs = append(s.legs[:len(s.legs):len(s.legs)], l)
	if s.cur == nil {
		s.cur = l
	}
	l.hop.set.Store(s)
	return nil
}

// ErrLegClosed is in the cause of a circuit that this side closed because
// another leg of its set had closed.
var ErrLegClosed = errors.New("conflux: a leg closed")

func (s *ConfluxSet) legClosed(h *Hop, cause error) {
	legs := s.end(h)
	for _, l := range legs {
		l.hop.c.Close(cell.DestroyNone, fault.New(fault.KindOf(cause), "%w: %w", ErrLegClosed, cause))
	}
	if legs != nil {
		s.wakeAll()
	}
}

// end ends the set, if h is a leg of it, and returns what is to be closed.
func (s *ConfluxSet) end(h *Hop) []*leg {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.legOfLocked(h) == nil {
		return nil
	}
	s.closed = true
	return s.legs
}

// Legs returns the circuits of the set, the first one first.
func (s *ConfluxSet) Legs() []*Circuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Circuit
	for _, l := range s.legs {
		out = append(out, l.hop.c)
	}
	return out
}

// Conflux returns the set that the hop belongs to, or nil.
func (h *Hop) Conflux() *ConfluxSet { return h.set.Load() }

// countLocked counts n messages that were sent on the present leg. The caller holds mu.
func (s *ConfluxSet) countLocked(n int) {
	s.sent += uint64(n)
	s.cur.sent += uint64(n)
	s.cur.last = s.now()
}

// sendData is Hop.SendData for the set.
func (s *ConfluxSet) sendData(w *Waiter, stream uint16, p []byte, maxCells int) (n, cells int, err error) {
	s.enqueue(w) // first, so that no credit is missed
	n, cells, flush, err := s.sealData(w, stream, p, maxCells)
	if flush != nil {
		flush.Flush()
	}
	return n, cells, err
}

// sealData is the part of sendData under the lock; flush is a channel that the
// caller must flush.
func (s *ConfluxSet) sealData(w *Waiter, stream uint16, p []byte, maxCells int) (n, cells int, flush *channel.Channel, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.takeTurnLocked() {
		return 0, 0, nil, nil
	}
	n, cells, flush, err = s.cur.hop.sealData(stream, p, maxCells)
	if cells > 0 {
		s.countLocked(cells)
	}
	if cells > 0 || err != nil {
		s.dequeue(w)
		s.wakeFirst()
	}
	return n, cells, flush, err
}

// send is Hop.Send for a numbered message.
func (s *ConfluxSet) send(cmd cell.RelayCommand, stream uint16, body []byte) error {
	var slot [cell.Len]byte
	flush, err := s.queue(slot[:], cmd, stream, body)
	flushAfter(flush, cmd)
	return err
}

// queue is the part of send under the lock; flush is a channel that the caller must flush. All
// hops of a set have the same format.
func (s *ConfluxSet) queue(slot []byte, cmd cell.RelayCommand, stream uint16, body []byte) (flush *channel.Channel, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeTurnLocked()
	h := s.cur.hop
	if err := h.fill(slot, cmd, stream, body); err != nil {
		return nil, err
	}
	if flush, err = h.queueCell(cell.CmdRelay, cmd, slot, len(body)); err == nil {
		s.countLocked(1)
	}
	return flush, err
}

func (s *ConfluxSet) legOfLocked(h *Hop) *leg {
	for _, l := range s.legs {
		if l.hop == h {
			return l
		}
	}
	return nil
}

func (s *ConfluxSet) enqueue(w *Waiter) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if !w.queued {
		w.queued = true
		s.waiters = append(s.waiters, w)
	}
}

func (s *ConfluxSet) dequeue(w *Waiter) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	w.queued = false
	for i, x := range s.waiters {
		if x == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return
		}
	}
}

func (s *ConfluxSet) wakeFirst() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if len(s.waiters) > 0 {
		s.waiters[0].Wake()
	}
}

func (s *ConfluxSet) wakeAll() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	for _, w := range s.waiters {
		w.Wake()
	}
}
