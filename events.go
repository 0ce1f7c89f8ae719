package chive

import (
	"sync"
	"sync/atomic"
	"time"
)

// Event is something that happened in a client: a *BootstrapEvent,
// *CircuitEvent or *StreamEvent, and, for Subscribe, a *LostEvent.
type Event interface{ event() }

// BootstrapEvent says how far the bootstrap has come. It is the first event of
// each subscription, and comes again at each change.
type BootstrapEvent struct {
	Time time.Time
	BootstrapStatus
}

// CircuitEvent is a change of one circuit.
type CircuitEvent struct {
	Time  time.Time
	ID    uint64 // unique within the client
	State CircuitState
	// Purpose says what it is for: "streams" to exits, "onions" for onion services, "conflux leg" until a
	// second leg is joined to another circuit, "conflux" from then on, or "controller".
	Purpose string
	Hops    int // finished so far
	// Took is the time from the start of building to the end of each finished hop.
	Took []time.Duration
	// Protection is the protection of each hop, the guard's first, once the
	// circuit is open.
	Protection []HopProtection
	// Path has the relays' fingerprints and Nicknames their nicknames, as in CircuitStatus, once the circuit
	// is open.
	Path, Nicknames []string
	// Err is why it failed, or why it was closed by others.
	Err error
}

// StreamEvent is a change of one stream. It does not name the destination.
type StreamEvent struct {
	Time    time.Time
	ID      uint64 // unique within the client
	Circuit uint64 // the circuit's ID, 0 before it has one
	State   StreamState
	Read    uint64 // bytes delivered, once it is closed
	Written uint64 // bytes accepted, once it is closed
	Err     error  // why it failed, or why it was closed by others
}

// LostEvent says that events were lost here, because the subscriber was too far behind. What it has learned from
// events may be wrong: Status has the present state.
type LostEvent struct {
	Time time.Time // of the first that was lost
}

// EventKinds are kinds of events, as bits.
type EventKinds uint8

// The kinds of events that Subscribe takes.
const (
	BootstrapEvents EventKinds = 1 << iota
	CircuitEvents
	StreamEvents

	allEvents = BootstrapEvents | CircuitEvents | StreamEvents
)

// kindOf returns the kind of an event.
func kindOf(e Event) EventKinds {
	switch e.(type) {
	case *BootstrapEvent:
		return BootstrapEvents
	case *CircuitEvent:
		return CircuitEvents
	}
	return StreamEvents
}

// CircuitState is the state of a circuit.
type CircuitState uint8

// The states of a circuit.
const (
	CircuitBuilding CircuitState = iota // the first hop is requested
	CircuitOpen                         // the last hop has confirmed it
	CircuitFailed                       // it never came to be open
	CircuitClosed                       // it was open, and is no more
)

// String returns "building", "open", "failed" or "closed".
func (s CircuitState) String() string {
	return nameOf([]string{"building", "open", "failed", "closed"}, uint8(s))
}

// StreamState is the state of a stream.
type StreamState uint8

// The states of a stream.
const (
	StreamOpening StreamState = iota // requested
	StreamOpen                       // the exit has connected
	StreamFailed                     // it never came to be open
	StreamClosed                     // it was open, and is no more
)

// String returns "opening", "open", "failed" or "closed".
func (s StreamState) String() string {
	return nameOf([]string{"opening", "open", "failed", "closed"}, uint8(s))
}

func (*BootstrapEvent) event() {}
func (*CircuitEvent) event()   {}
func (*StreamEvent) event()    {}
func (*LostEvent) event()      {}

// eventBuffer is how many events a subscriber may be behind.
const eventBuffer = 256

// eventHub sends events to subscribers and never waits for one: a subscriber that
// is too far behind loses events. The zero value is ready.
type eventHub struct {
	missed atomic.Uint64 // events that some subscriber did not get
	active atomic.Int32  // subscribers: publishing to none costs one load

	mu     sync.Mutex // guards what follows
	subs   map[*subscriber]struct{}
	closed bool
}

// subscriber is who reads events.
type subscriber struct {
	ch    chan Event
	kinds EventKinds
	// Who wants to learn of lost events has one more place in ch, which a LostEvent takes.
	tell, lost bool // lost: the last event was lost
}

// offer gives an event to the subscriber, if it wants it, and reports whether it was lost. It never waits.
func (s *subscriber) offer(e Event) (lost bool) {
	if s.kinds&kindOf(e) == 0 {
		return false
	}
	if len(s.ch) < eventBuffer { // only the hub sends, under its lock
		s.ch <- e
		s.lost = false
		return false
	}
	if s.tell && !s.lost {
		s.ch <- &LostEvent{time.Now()}
	}
	s.lost = true
	return true
}

// subscribe returns a channel of events of some kinds, what first returns before all others, and a function that
// ends the subscription and closes the channel. With tell, the channel has a LostEvent where events were lost.
func (h *eventHub) subscribe(kinds EventKinds, tell bool, first func() Event) (<-chan Event, func()) {
	s := &subscriber{ch: make(chan Event, eventBuffer+1), kinds: kinds, tell: tell}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(s.ch)
		return s.ch, func() {}
	}
	if h.subs == nil {
		h.subs = map[*subscriber]struct{}{}
	}
	h.subs[s] = struct{}{}
	h.active.Add(1)
	s.offer(first())
	return s.ch, func() { h.unsubscribe(s) }
}

func (h *eventHub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[s]; ok {
		delete(h.subs, s)
		h.active.Add(-1)
		close(s.ch)
	}
}

// wanted reports whether there is a subscriber: without one, no event need be
// made.
func (h *eventHub) wanted() bool { return h.active.Load() > 0 }

// publish sends e to every subscriber. The caller must not change e afterwards.
func (h *eventHub) publish(e Event) {
	if !h.wanted() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.offer(e) {
			h.missed.Add(1)
		}
	}
}

// close ends every subscription.
func (h *eventHub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		delete(h.subs, s)
		h.active.Add(-1)
		close(s.ch)
	}
}
