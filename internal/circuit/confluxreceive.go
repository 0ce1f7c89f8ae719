package circuit

import (
	"bytes"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// confluxSwitch handles CONFLUX_SWITCH.
func confluxSwitch(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	if s := h.set.Load(); s != nil {
		return s.switched(h, m.Data)
	}
	return h.unexpected(m.Cmd)
}

// switched handles a SWITCH that came on h.
func (s *ConfluxSet) switched(h *Hop, body []byte) error {
	m, err := cell.ParseConfluxSwitch(body)
	if err != nil {
		return err
	}
	s.rmu.Lock()
	defer s.rmu.Unlock()
	l := s.legOfLocked(h)
	if l == nil || m.Seq == 0 {
		return fault.New(fault.Protocol, "CONFLUX_SWITCH: by %d on a circuit that is no leg, or without need", m.Seq)
	}
	l.recv += uint64(m.Seq)
	return nil
}

// receive handles a stream's message that came on h: if it is its turn, or if it has
// no number, it gives the message to its stream, which is the first leg's, and then
// those that waited for it. due is the SENDME
// that the message makes due on h, if any.
func (s *ConfluxSet) receive(h *Hop, m cell.RelayMsg, due *cell.Sendme) error {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	if !m.Cmd.Has(cell.Numbered) {
		return s.legs[0].hop.toStream(h, m)
	}
	l := s.legOfLocked(h)
	if l == nil {
		return fault.New(fault.Protocol, "conflux: a numbered message on a circuit that is no leg")
	}
	if err := s.orderLocked(l, h, m); err != nil {
		return err
	}
	return s.acknowledgeLocked(l, due)
}

// acknowledgeLocked sends the SENDME that is due on l, and those that were delayed
// before, unless l is far ahead. The caller holds rmu.
func (s *ConfluxSet) acknowledgeLocked(l *leg, due *cell.Sendme) error {
	if due != nil && (len(l.owed) > 0 || s.waiting > holdEarly && l.recv > s.delivered) {
		// The tag belongs to the layer, and changes with the next cell.
		l.owed = append(l.owed, cell.Sendme{Version: due.Version, Tag: bytes.Clone(due.Tag)})
		due = nil
	}
	if due != nil {
		if err := l.hop.sendSendme(due); err != nil {
			return err
		}
	}
	if s.waiting > holdEarly {
		return nil
	}
	for _, l := range s.legs {
		for i := range l.owed {
			if err := l.hop.sendSendme(&l.owed[i]); err != nil {
				return err
			}
		}
		l.owed = nil
	}
	return nil
}

// orderLocked is receive without SENDMEs.
func (s *ConfluxSet) orderLocked(l *leg, h *Hop, m cell.RelayMsg) error {
	l.recv++
	if l.recv != s.delivered+1 {
		if l.recv <= s.delivered || s.cameTwiceLocked(l.recv) {
			return fault.New(fault.Protocol, "conflux: message %d came twice", l.recv)
		}
		if s.fewer && s.stuckLocked(s.legs) {
			h.c.Close(cell.DestroyNone, errLost)
			return nil
		}
		if s.waiting >= maxEarly {
			return fault.New(fault.Protocol, "conflux: %d messages wait for one that does not come", s.waiting)
		}
		s.keepLocked(l, m)
		return nil
	}
	first := s.legs[0].hop
	err := first.toStream(h, m)
	s.delivered++
	for err == nil && s.waiting > 0 {
		e := s.nextEarlyLocked()
		if e == nil {
			break
		}
		err = first.toStream(h, cell.RelayMsg{Cmd: e.cmd, Stream: e.stream, Data: e.data[:e.size]})
		earlyPool.Put(e)
		s.delivered++
	}
	return err
}
