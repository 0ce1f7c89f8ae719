package circuit

import (
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/cell"
)

// earlyMessage is a message that came before its turn.
type earlyMessage struct {
	number uint64
	cmd    cell.RelayCommand
	stream uint16
	size   uint16
	data   [cell.PayloadLen]byte
}

var earlyPool = sync.Pool{New: func() any { return new(earlyMessage) }}

// earlyCost is the memory of such a message on the first leg's account, in bytes: itself, and its
// place in the queue.
const earlyCost = cell.PayloadLen + 128

// holdEarly is how many messages may wait for earlier ones before the leg that is
// ahead gets no more SENDMEs. If the other leg stalls at a busy relay, the sender
// on this leg then reaches the end of its congestion window, and waits too.
const holdEarly = 1024

// maxEarly bounds the messages that wait for earlier ones: an honest sender stops
// well below it, one congestion window after holdEarly.
const maxEarly = 16384

// earlyQueue has the messages of one leg that came before their turn. A leg's messages come in the
// order of their numbers, so that the first one is always the next. It has no memory while it is empty.
type earlyQueue struct {
	all  []*earlyMessage
	head int // of those that wait
}

func (q *earlyQueue) waiting() []*earlyMessage { return q.all[q.head:] }

func (q *earlyQueue) push(number uint64, m cell.RelayMsg) {
	e := earlyPool.Get().(*earlyMessage)
	e.number, e.cmd, e.stream, e.size = number, m.Cmd, m.Stream, uint16(copy(e.data[:], m.Data))
	if q.head > 0 && len(q.all) == cap(q.all) && q.head >= len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		for i := n; i < len(q.all); i++ {
			q.all[i] = nil
		}
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, e)
}

// has reports whether a message waits.
func (q *earlyQueue) has(number uint64) bool {
	_, found := slices.BinarySearchFunc(q.waiting(), number, func(e *earlyMessage, number uint64) int {
		switch {
		case e.number < number:
			return -1
		case e.number > number:
			return 1
		}
		return 0
	})
	return found
}

// take removes a message if it is the first; else it returns nil. The caller puts it back into the pool.
func (q *earlyQueue) take(number uint64) *earlyMessage {
	w := q.waiting()
	if len(w) == 0 || w[0].number != number {
		return nil
	}
	e := w[0]
	w[0] = nil
	if q.head++; len(w) == 1 {
		q.all, q.head = q.all[:0], 0
		if cap(q.all) > holdEarly {
			q.all = nil
		}
	}
	return e
}

// keepLocked keeps a message that came before its turn.
func (s *ConfluxSet) keepLocked(l *leg, m cell.RelayMsg) {
	s.legs[0].hop.c.Account().Reserve(earlyCost)
	if l.early == nil {
		l.early = new(earlyQueue)
		s.early = append(s.early, l.early)
	}
	l.early.push(l.recv, m)
	s.waiting++
}

// cameTwiceLocked reports whether a message waits already.
func (s *ConfluxSet) cameTwiceLocked(number uint64) bool {
	for _, q := range s.early {
		if q.has(number) {
			return true
		}
	}
	return false
}

// nextEarlyLocked takes the message whose turn it is, if it waits.
func (s *ConfluxSet) nextEarlyLocked() *earlyMessage {
	for _, q := range s.early {
		if e := q.take(s.delivered + 1); e != nil {
			s.legs[0].hop.c.Account().Release(earlyCost)
			s.waiting--
			return e
		}
	}
	return nil
}
