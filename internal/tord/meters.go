package tord

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/client"
)

// teller tells controllers of events.
type teller interface {
	wants(event string) bool // whether a controller wants some
	tell(event, text string)
}

// meters compares what is counted with what controllers were told of it: once a second, and at the end of a stream or a
// circuit, which may last for less than that.
type meters struct {
	mu      sync.Mutex                 // guards what follows
	of      *client.Client             // whose streams and circuits these are
	streams map[uint64][2]uint64       // bytes read and written; nil: nobody wants to know
	carried map[uint64]circuit.Carried // nil: as above
}

// second tells what has changed since a second ago.
func (m *meters) second(t teller, c *client.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofLocked(c)
	if t.wants("STREAM_BW") {
		m.bandwidthLocked(t, c)
	} else {
		m.streams = nil
	}
	if want := t.wants("CIRC_BW"); want {
		c.CountCells(true)
		m.cellsLocked(t, c)
	} else if m.carried != nil {
		c.CountCells(false)
		m.carried = nil
	}
}

// ofLocked has the meters be a client's: another one counts from zero.
func (m *meters) ofLocked(c *client.Client) {
	if c != m.of {
		m.of, m.streams, m.carried = c, nil, nil
	}
}

// bandwidthLocked tells what streams have carried. Those that it does not know are older than the wish to know it.
func (m *meters) bandwidthLocked(t teller, c *client.Client) {
	if m.streams == nil {
		m.streams = map[uint64][2]uint64{}
	}
	for _, s := range c.Streams() {
		if _, known := m.streams[s.ID]; known {
			m.tellStreamLocked(t, &s)
		}
		m.streams[s.ID] = [2]uint64{s.Read, s.Written}
	}
}

// tellStreamLocked tells what is new of a stream, if something is.
func (m *meters) tellStreamLocked(t teller, s *client.StreamReport) {
	was := m.streams[s.ID]
	if s.Read == was[0] && s.Written == was[1] {
		return
	}
	// C tor has the bytes to the program first, and a program's own second: see control-spec.
	t.tell("STREAM_BW", fmt.Sprintf("%d %d %d %s", s.ID, s.Written-was[1], s.Read-was[0], time.Now().UTC().Format(microForm)))
}

// streamStep notes a stream that begins, and tells the rest of one that ends.
func (m *meters) streamStep(t teller, c *client.Client, s *client.StreamReport) {
	if s.Step != client.StreamNew && s.Step != client.StreamClosed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Step == client.StreamNew {
		if !t.wants("STREAM_BW") {
			return
		}
		m.ofLocked(c)
		if m.streams == nil {
			m.streams = map[uint64][2]uint64{}
		}
		m.streams[s.ID] = [2]uint64{}
		return
	}
	if _, known := m.streams[s.ID]; known && c == m.of {
		m.tellStreamLocked(t, s)
		delete(m.streams, s.ID)
	}
}

// cellsLocked tells what each circuit has carried.
func (m *meters) cellsLocked(t teller, c *client.Client) {
	next, now := c.Carried(), time.Now()
	if m.carried != nil { // else it was not counted up to now
		for _, id := range slices.Sorted(maps.Keys(next)) {
			if line := carriedLine(id, m.carried[id], next[id], now); line != "" {
				t.tell("CIRC_BW", line)
			}
		}
	}
	m.carried = next
}

// circuitOver tells the rest of a circuit that has ended.
func (m *meters) circuitOver(t teller, c *client.Client, r *client.CircuitReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.carried == nil || m.of != c {
		return
	}
	if line := carriedLine(r.ID, m.carried[r.ID], r.Carried, time.Now()); line != "" {
		t.tell("CIRC_BW", line)
	}
	delete(m.carried, r.ID)
}

// carriedLine returns the text of a CIRC_BW event; empty: there was nothing.
func carriedLine(id uint64, was, now circuit.Carried, at time.Time) string {
	if was.Read == now.Read && was.Written == now.Written {
		return ""
	}
	s := fmt.Sprintf("ID=%d READ=%d WRITTEN=%d TIME=%s DELIVERED_READ=%d OVERHEAD_READ=%d DELIVERED_WRITTEN=%d OVERHEAD_WRITTEN=%d",
		id, now.Read-was.Read, now.Written-was.Written, at.UTC().Format(microForm), now.DeliveredRead-was.DeliveredRead, now.OverheadRead-was.OverheadRead,
		now.DeliveredWritten-was.DeliveredWritten, now.OverheadWritten-was.OverheadWritten)
	if f := now.Flow; f.Cwnd > 0 {
		slow := 0
		if f.SlowStart {
			slow = 1
		}
		s += fmt.Sprintf(" SS=%d CWND=%d RTT=%d MIN_RTT=%d", slow, f.Cwnd, f.RTT.Milliseconds(), f.MinRTT.Milliseconds())
	}
	return s
}
