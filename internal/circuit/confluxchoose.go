package circuit

import (
	"math"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
)

// ready reports whether DATA can be sent to the hop now, and its round-trip time, which is
// zero while it is not known.
func (h *Hop) ready() (rtt time.Duration, ok bool) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	rtt = h.send.State().RTT
	if h.send.Available() <= 0 {
		return rtt, false
	}
	ok = h.c.home.Load().Room() > 0
	if !ok {
		h.c.roomWait = true
	}
	return rtt, ok
}

func (h *Hop) flowState() flow.State {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.send.State()
}

// waitsForBestLocked reports whether DATA waits for the leg with the lowest round-trip time, and takes no
// other meanwhile: the other end asked for little to put in order, or for few detours. C tor
// chooses the same way for each of them. The caller holds mu.
func (s *ConfluxSet) waitsForBestLocked() bool {
	switch s.ux {
	case cell.ConfluxMinLatency, cell.ConfluxLowMemLatency, cell.ConfluxLowMemThroughput:
		return true
	}
	return false
}

// chooseLocked picks the leg to send on: among those that can send now, or among all if the set
// waits, the one with the lowest round-trip time; if there is none, the present one. The time
// of an exit's leg is not known before LINKED_ACK: it is the last choice, because the leg of
// which nothing has come yet is the slow one. The caller holds mu.
func (s *ConfluxSet) chooseLocked() (best *leg, ready bool) {
	best = s.cur
	var least time.Duration
	all, found := s.waitsForBestLocked(), false
	for _, l := range s.legs {
		rtt, open := l.hop.ready()
		if rtt == 0 {
			rtt = l.rtt
		}
		if rtt == 0 {
			rtt = math.MaxInt64
		}
		if (open || all) && (!found || rtt < least) {
			best, least, ready, found = l, rtt, open, true
		}
	}
	return best, ready
}

// takeTurnLocked makes the leg that chooseLocked picks the one on which messages are sent. If it has just
// gone, the present one stays. It reports whether DATA may go there now, and not wait for
// another leg. The caller holds mu.
func (s *ConfluxSet) takeTurnLocked() bool {
	l, ready := s.chooseLocked()
	if l == s.cur || !ready {
		return l == s.cur || s.closed
	}
	if missed := s.sent - l.sent; missed > 0 {
		m := cell.ConfluxSwitch{Seq: uint32(missed)}
		if l.hop.sendCell(cell.CmdRelay, cell.RelayConfluxSwitch, 0, m.Append(nil)) != nil {
			return true
		}
		l.sent = s.sent
	}
	s.cur = l
	return true
}
