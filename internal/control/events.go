package control

import (
	"iter"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// eventNames are the events that controllers may ask for, in C tor's order. Some never come.
var eventNames = [...]string{"CIRC", "CIRC_MINOR", "STREAM", "ORCONN", "BW", "DEBUG", "INFO", "NOTICE", "WARN", "ERR", "NEWDESC", "ADDRMAP",
	"DESCCHANGED", "NS", "STATUS_GENERAL", "STATUS_CLIENT", "STATUS_SERVER", "GUARD", "STREAM_BW", "CLIENTS_SEEN", "NEWCONSENSUS",
	"BUILDTIMEOUT_SET", "SIGNAL", "CONF_CHANGED", "CONN_BW", "CELL_STATS", "CIRC_BW", "TRANSPORT_LAUNCHED", "HS_DESC", "HS_DESC_CONTENT",
	"NETWORK_LIVENESS"}

// EventNames returns the events that controllers may ask for.
func EventNames() []string { return slices.Clone(eventNames[:]) }

// gone are events of earlier versions of C tor, which it lets controllers ask for.
var gone = []string{"EXTENDED", "AUTHDIR_NEWDESCS"}

// Wanted reports whether a controller wants an event: without one, it need not be made.
func (s *Server) Wanted(name string) bool {
	i := slices.Index(eventNames[:], name)
	return i >= 0 && s.wanted[i].Load() > 0
}

// Event sends "650 NAME TEXT" to the controllers that want the event. It never waits for one.
func (s *Server) Event(name, text string) error {
	return s.EventAt(name, text, "")
}

// EventAt is Event for what a stream does that came by a port of the proxy.
func (s *Server) EventAt(name, text, port string) error {
	if !s.Wanted(name) {
		return nil
	}
	line, err := ctlwire.AppendLine(nil, ctlwire.AsyncEvent, ctlwire.End, strings.TrimRight(name+" "+text, " "))
	if err != nil {
		return err
	}
	s.send(name, event{text: line, port: port})
	return nil
}

// event is an event on its way to a controller.
type event struct {
	name int // in eventNames
	text []byte
	port string // of the proxy, by which its stream came; empty: none, or it is not known
}

// EventLines sends an event of several lines, with a last line "650 OK".
func (s *Server) EventLines(name string, lines []string) error {
	if !s.Wanted(name) {
		return nil
	}
	b, err := ctlwire.AppendLine(nil, ctlwire.AsyncEvent, ctlwire.Mid, name)
	for _, l := range lines {
		if err == nil {
			b, err = ctlwire.AppendLine(b, ctlwire.AsyncEvent, ctlwire.Mid, l)
		}
	}
	if err == nil {
		b, err = ctlwire.AppendLine(b, ctlwire.AsyncEvent, ctlwire.End, "OK")
	}
	if err != nil {
		return err
	}
	s.send(name, event{text: b})
	return nil
}

// EventSeq sends an event with data: its lines stand between the event's line and "650 OK".
func (s *Server) EventSeq(name, text string, lines iter.Seq[string]) error {
	if !s.Wanted(name) {
		return nil
	}
	b, err := ctlwire.AppendLine(nil, ctlwire.AsyncEvent, ctlwire.Data, strings.TrimRight(name+" "+text, " "))
	if err != nil {
		return err
	}
	for l := range lines {
		if b, err = ctlwire.AppendDataLine(b, l); err != nil {
			return err
		}
	}
	if b, err = ctlwire.AppendLine(ctlwire.AppendDataEnd(b), ctlwire.AsyncEvent, ctlwire.End, "OK"); err != nil {
		return err
	}
	s.send(name, event{text: b})
	return nil
}

// send gives the event to the sessions that want it. The log has events of its own, so a session that is
// closed here is told of without the lock.
func (s *Server) send(name string, e event) {
	e.name = slices.Index(eventNames[:], name)
	lost := s.queueAll(e)
	if lost > 0 {
		s.cfg.Log.Warn("a controller did not read its events, and lost its connection", "controllers", lost, "bytes", maxQueued)
	}
}

// queueAll returns how many sessions it has closed, because they lag too far behind.
func (s *Server) queueAll(e event) (lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		if !one.queue(e) {
			lost++
		}
	}
	return lost
}

// want replaces the events that the session wants, and reports the first unknown name.
func (one *session) want(names []string) (unknown string) {
	var next [len(eventNames)]bool
	for _, n := range names {
		up := strings.ToUpper(n)
		i := slices.Index(eventNames[:], up)
		if i < 0 && !slices.Contains(gone, up) {
			return n
		}
		if i >= 0 {
			next[i] = true
		}
	}
	one.emu.Lock()
	defer one.emu.Unlock()
	for i := range next {
		switch {
		case next[i] && !one.wants[i]:
			one.srv.wanted[i].Add(1)
		case !next[i] && one.wants[i]:
			one.srv.wanted[i].Add(-1)
		}
	}
	one.wants = next
	return ""
}

// queue adds an event if the session wants it; false: the session lags too far behind, and was closed.
func (one *session) queue(e event) bool {
	one.emu.Lock()
	defer one.emu.Unlock()
	if !one.wants[e.name] || one.overrun {
		return true
	}
	// Of a large network one event alone may be larger. It waits for nothing if there are no others.
	if len(one.events) > 0 && one.queued+len(e.text) > maxQueued {
		one.overrun, one.events, one.queued = true, nil, 0
		one.close()
		return false
	}
	one.events, one.queued = append(one.events, e), one.queued+len(e.text)
	select {
	case one.more <- struct{}{}:
	default: // it will look anyway
	}
	return true
}

// tellEvents writes events between replies, until the session ends.
func (one *session) tellEvents() {
	for {
		select {
		case <-one.done:
			return
		case <-one.more:
		}
		if one.writeEvents() != nil {
			one.close()
			return
		}
	}
}

func (one *session) writeEvents() error {
	one.wmu.Lock()
	defer one.wmu.Unlock()
	return one.writeEventsLocked()
}

// maxBatch is how many bytes of events one write takes together. They do not count as queued any more.
const maxBatch = 16 << 10

func (one *session) writeEventsLocked() error {
	var batch []byte // one write each would cost more than all else
	for {
		e, ok := one.nextEvent()
		var text []byte
		if ok {
			text = one.shapeLocked(e)
		}
		if len(batch) > 0 && (!ok || len(batch)+len(text) > maxBatch) {
			if err := one.write(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		switch {
		case !ok:
			return nil
		case len(text) > maxBatch: // as it is, without a copy
			if err := one.write(text); err != nil {
				return err
			}
		default:
			batch = append(batch, text...)
		}
	}
}

// nextEvent takes an event from the queue. Its bytes count until then.
func (one *session) nextEvent() (e event, ok bool) {
	one.emu.Lock()
	defer one.emu.Unlock()
	if len(one.events) == 0 {
		one.events = nil
		return e, false
	}
	e = one.events[0]
	one.events, one.queued = one.events[1:], one.queued-len(e.text)
	return e, true
}
