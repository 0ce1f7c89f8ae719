package chive

import (
	"sync"
	"sync/atomic"
	"time"
)

// Event is something that happened in a client: a *BootstrapEvent,
// *CircuitEvent, *StreamEvent or *GuardEvent.
type Event interface{ event() }

// BootstrapEvent says that the bootstrap came further, or stopped.
type BootstrapEvent struct {
	Time time.Time
	Bootstrap
}

// CircuitEvent follows one circuit.
type CircuitEvent struct {
	Time  time.Time
	ID    uint64 // unique within the client
	State State  // Opening, Open, Failed or Closed
	Hops  int    // finished so far
	// Took is the time of building, of each finished hop; complete when Open.
	Took []time.Duration
	// Protection is what protects each finished hop, the guard's first, once the
	// circuit is Open.
	Protection []HopProtection
	Err        error // why it Failed or was Closed, when not for age
}

// StreamEvent follows one stream. It does not say where to.
type StreamEvent struct {
	Time    time.Time
	ID      uint64 // unique within the client
	Circuit uint64 // the circuit's ID, 0 before it has one
	State   State  // Opening, Open, Failed or Closed
	Read    uint64 // bytes delivered, when Closed
	Written uint64 // bytes taken, when Closed
	Err     error  // why it Failed, or Closed other than by an ordinary end
}

// GuardEvent says that what is known of a guard changed.
type GuardEvent struct {
	Time time.Time
	Guard
}

// State is where a circuit or a stream is in its life.
type State uint8

// The states.
const (
	Opening State = iota // asked for
	Open                 // in use: the far end has confirmed it
	Failed               // it never came to be open
	Closed               // it was open, and is no more
)

// String returns the state's name in lower case.
func (s State) String() string {
	return nameOf([]string{"opening", "open", "failed", "closed"}, uint8(s))
}

func (*BootstrapEvent) event() {}
func (*CircuitEvent) event()   {}
func (*StreamEvent) event()    {}
func (*GuardEvent) event()     {}

// eventBuffer is how many events a subscriber may be behind.
const eventBuffer = 256

// eventHub hands events to subscribers and never waits for one: who is too
// far behind misses events. The zero value is ready.
type eventHub struct {
	missed atomic.Uint64 // events that some subscriber did not get
	active atomic.Int32  // subscribers: publishing to none costs one load

	mu     sync.Mutex
	subs   map[chan Event]struct{}
	closed bool
}

// subscribe returns a channel of events and a function that ends the
// subscription and closes the channel.
func (h *eventHub) subscribe() (<-chan Event, func()) {
	ch := make(chan Event, eventBuffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(ch)
		return ch, func() {}
	}
	if h.subs == nil {
		h.subs = map[chan Event]struct{}{}
	}
	h.subs[ch] = struct{}{}
	h.active.Add(1)
	return ch, func() { h.unsubscribe(ch) }
}

func (h *eventHub) unsubscribe(ch chan Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[ch]; ok {
		delete(h.subs, ch)
		h.active.Add(-1)
		close(ch)
	}
}

// wanted reports whether anyone listens, so that an event need not be made.
func (h *eventHub) wanted() bool { return h.active.Load() > 0 }

// publish hands e to every subscriber. e must not be changed afterwards.
func (h *eventHub) publish(e Event) {
	if !h.wanted() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs {
		select {
		case ch <- e:
		default:
			h.missed.Add(1)
		}
	}
}

// close ends every subscription.
func (h *eventHub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for ch := range h.subs {
		delete(h.subs, ch)
		h.active.Add(-1)
		close(ch)
	}
}
