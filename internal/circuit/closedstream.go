package circuit

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// closedStream stands for a stream that this side has closed while the peer may
// still send: messages for it are dropped until END. It counts them, so that a
// relay cannot use a closed stream as a hidden channel.
type closedStream struct {
	h       *Hop
	id      uint16
	allowed int  // guarded by h.smu
	refused bool // it was never open: the peer may use the identifier again
}

const (
	// maxAfterClose is how many cells may still be in flight for a stream that this
	// side closed: more than any congestion window that the consensus allows by
	// default.
	maxAfterClose = 20000
	// maxClosed bounds the streams on one hop that are remembered as closed, each by
	// itself. C tor does not answer END, so most stay until they are the oldest entry
	// above the bound. Then pastStreams has them.
	maxClosed = 1024
	// closedCost is the memory of a closedStream on its circuit's account, in bytes.
	closedCost = 96
)

func (s *closedStream) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	s.h.smu.Lock()
	defer s.h.smu.Unlock()
	if s.allowed--; s.allowed < 0 {
		return fault.New(fault.Protocol, "stream %d: the peer goes on sending after it was closed", s.id)
	}
	if isLast(m.Cmd) {
		s.h.forgetLocked(s.id)
	}
	return nil
}

// isLast reports whether a message is the last one for its stream: no END follows the
// answer to a lookup.
func isLast(c cell.RelayCommand) bool { return c == cell.RelayEnd || c == cell.RelayResolved }

func (s *closedStream) Flush()                   {}
func (s *closedStream) HandleCircuitClose(error) {}

func isClosedStream(s StreamReceiver) bool {
	_, ok := s.(*closedStream)
	return ok
}

func (h *Hop) noteRefused(id uint16) {
	h.smu.Lock()
	defer h.smu.Unlock()
	if _, used := h.streams[id]; used || h.ended || id == 0 {
		return
	}
	if h.streams == nil {
		h.streams = map[uint16]StreamReceiver{}
	}
	h.closedLocked(&closedStream{h: h, id: id, allowed: maxAfterClose, refused: true})
}

func (h *Hop) closedLocked(s *closedStream) {
	h.streams[s.id] = s
	h.past.remove(s.id)
	h.c.Account().Reserve(closedCost)
	h.gone = append(h.gone, s.id)
	if len(h.gone) <= maxClosed {
		return
	}
	oldest := h.gone[0]
	h.gone = h.gone[1:]
	if s, ok := h.streams[oldest].(*closedStream); ok {
		h.forgetLocked(oldest)
		if h.past.add(s) {
			h.c.Account().Reserve(pastCost)
		}
	}
}

// forgetLocked forgets a stream if it is one that was closed here.
func (h *Hop) forgetLocked(id uint16) {
	if isClosedStream(h.streams[id]) {
		delete(h.streams, id)
		h.c.Account().Release(closedCost)
	}
}

// pastStreams has the identifiers of streams that were closed here, of which there are
// too many to remember each by itself. If many streams are closed at once, cells for
// the oldest may still be in flight, and must not cost the circuit. What may come for
// all of them together has a bound. The hop's smu guards it.
type pastStreams struct {
	ids     *[1 << 16 / 64]uint64 // a bit for each identifier; nil: there is none
	allowed int
}

const (
	// pastCost is the memory of pastStreams on its circuit's account, in bytes.
	pastCost = 1 << 16 / 8
	// maxPastCells bounds pastStreams.allowed: what the streams that are remembered
	// may get.
	maxPastCells = maxClosed * maxAfterClose
)

// add adds a stream; grew says that it is the first.
func (p *pastStreams) add(s *closedStream) (grew bool) {
	if grew = p.ids == nil; grew {
		p.ids = new([1 << 16 / 64]uint64)
	}
	p.ids[s.id/64] |= 1 << (s.id % 64)
	p.allowed = min(p.allowed+s.allowed, maxPastCells)
	return grew
}

func (p *pastStreams) has(id uint16) bool { return p.ids != nil && p.ids[id/64]&(1<<(id%64)) != 0 }

// remove says that the peer has ended the stream, or that another has its identifier.
func (p *pastStreams) remove(id uint16) {
	if p.ids != nil {
		p.ids[id/64] &^= 1 << (id % 64)
	}
}

// late handles a message for a stream that is not remembered. A relay drops it, as C tor
// does: its client sends END for a lookup that it has given up, of which a relay remembers
// nothing, and may still need the circuit. A client ends the circuit: by messages that it
// drops, a relay could signal to the guard. HALF_CLOSE, which C tor does not know, ends it
// at either end (docs/spec/half-close.md).
func (h *Hop) late(m cell.RelayMsg) error {
	h.smu.Lock()
	defer h.smu.Unlock()
	if h.ended { // by another leg of a conflux set, which is about to close, too
		return nil
	}
	switch known := h.past.has(m.Stream); {
	case !known && h.c.server != nil && m.Cmd != cell.RelayHalfClose:
		return nil
	case !known:
		return fault.New(fault.Protocol, "%v for stream %d, which does not exist", m.Cmd, m.Stream)
	}
	if h.past.allowed--; h.past.allowed < 0 {
		return fault.New(fault.Protocol, "stream %d: the peer goes on sending after it and others were closed", m.Stream)
	}
	if isLast(m.Cmd) {
		h.past.remove(m.Stream)
	}
	return nil
}
