package chive

import (
	"sync"
	"sync/atomic"
	"time"
)

// Event is something that happened in a client: a *BootstrapEvent,
// *CircuitEvent or *StreamEvent.
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
	Hops  int // finished so far
	// Took is the time from the start of building to the end of each finished hop.
	Took []time.Duration
	// Protection is the protection of each hop, the guard's first, once the
	// circuit is open.
	Protection []HopProtection
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

// eventBuffer is how many events a subscriber may be behind.
const eventBuffer = 256

// eventHub sends events to subscribers and never waits for one: a subscriber that
// is too far behind loses events. The zero value is ready.
type eventHub struct {
	missed atomic.Uint64 // events that some subscriber did not get
	active atomic.Int32  // subscribers: publishing to none costs one load

	mu     sync.Mutex // guards what follows
	subs   map[chan Event]struct{}
	closed bool
}

// subscribe returns a channel of events, what first returns before all others, and
// a function that ends the subscription and closes the channel.
func (h *eventHub) subscribe(first func() Event) (<-chan Event, func()) {
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
	ch <- first()
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
