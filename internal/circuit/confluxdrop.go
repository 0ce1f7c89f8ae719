package circuit

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// settled is how long after its last message a leg that has gone is taken to have
// delivered what was sent on it.
const settled = 10 * time.Second

var errLost = fault.New(fault.Network, "conflux: messages were lost with a leg")

// drop takes a leg out of the set whose circuit another relay or a link has ended, if
// no message is lost with it. Else a set with two legs would live half as long as a
// circuit, even if only one of them is ever used. The set ends with
//
//   - its first leg, which has the streams, unless there were none yet at a relay: a client may replace any leg until it has all that
//     it wants;
//   - the leg on which this end sends, or the other end did: nobody could tell which
//     messages have arrived;
//   - one with much that was not acknowledged, as in C tor, or that was in use just
//     now: this end would see a gap, but C tor waits for ever;
//   - one that owes a message which no other leg can bring.
func (s *ConfluxSet) drop(h *Hop) {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.legOfLocked(h)
	unused := h.c.server != nil && s.sent == 0 && s.delivered == 0 && s.waiting == 0
	if l == nil || s.closed || (l == s.legs[0] || l == s.cur) && !unused ||
		h.flowState().Inflight >= h.info.SendmeInc || s.now().Sub(l.last) < settled {
		return
	}
	var rest []*leg
	ahead := false
	for _, o := range s.legs {
		if o != l {
			rest, ahead = append(rest, o), ahead || o.recv >= l.recv
		}
	}
	if ahead && !s.stuckLocked(rest) {
		if s.legs, s.fewer = rest, true; s.cur == l {
			s.cur = rest[0]
		}
		s.wakeFirst() // who waits may have waited for this leg
	}
}

// stuckLocked reports whether none of the legs can bring the next message. The caller
// holds rmu.
func (s *ConfluxSet) stuckLocked(legs []*leg) bool {
	for _, l := range legs {
		if l.recv <= s.delivered {
			return false
		}
	}
	return true
}
