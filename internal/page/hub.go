package page

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

const (
	tick       = 250 * time.Millisecond // between two looks for events
	stateTick  = 4                      // ticks between two states
	maxEvents  = 200                    // of a tick: what comes above is counted, not told
	behind     = 16                     // messages that a reader may be behind
	maxReaders = 8
)

// hub tells all readers the same. While there is none, it does nothing.
type hub struct {
	state  func() *State
	follow func(context.Context, func(Event))
	log    *slog.Logger

	left sync.WaitGroup // readers, and the goroutines of rounds

	mu      sync.Mutex // guards what follows
	readers map[*reader]struct{}
	round   context.CancelFunc // ends the goroutines; nil: nobody looks
	closed  bool
	events  []Event
	lost    int
	changed chan struct{} // a state is due at once
}

// reader is who looks. c is closed when it is too far behind, or the hub has closed.
type reader struct{ c chan []byte }

// join adds a reader, which gets a state at once. It calls leave at its end.
func (h *hub) join() (*reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fault.New(fault.Closed, "the page has closed")
	}
	if len(h.readers) >= maxReaders {
		return nil, fault.New(fault.Resource, "%d readers are the most", maxReaders)
	}
	r := &reader{make(chan []byte, behind)}
	if h.readers == nil {
		h.readers = map[*reader]struct{}{}
	}
	h.readers[r] = struct{}{}
	h.left.Add(1)
	if h.round == nil {
		h.beginLocked()
	}
	h.changedLocked()
	return r, nil
}

// enter has close wait for who calls left.Done later; false: it is too late for that.
func (h *hub) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.left.Add(1)
	return true
}

// leave removes a reader. With the last one, the goroutines end.
func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(r)
	h.left.Done()
}

func (h *hub) dropLocked(r *reader) {
	if _, ok := h.readers[r]; !ok {
		return
	}
	delete(h.readers, r)
	close(r.c)
	if len(h.readers) == 0 {
		h.round()
		h.round, h.events, h.lost = nil, nil, 0
	}
}

func (h *hub) beginLocked() {
	ctx, cancel := context.WithCancel(context.Background())
	h.round, h.changed = cancel, make(chan struct{}, 1)
	failed := func(error) { h.dropAll() } // nobody would tell them anything any more
	changed := h.changed
	h.left.Go(panics.Contain(h.log, failed, func() { h.tell(ctx, changed) }))
	if h.follow != nil {
		h.left.Go(panics.Contain(h.log, failed, func() { h.follow(ctx, func(e Event) { h.heard(ctx, e) }) }))
	}
}

// heard keeps an event for the next tick.
func (h *hub) heard(ctx context.Context, e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ctx.Err() != nil: // of an earlier round
	case len(h.events) < maxEvents:
		h.events = append(h.events, e)
	default:
		h.lost++
	}
}

// change has a state told at once.
func (h *hub) change() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.round != nil {
		h.changedLocked()
	}
}

func (h *hub) changedLocked() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// tell sends states and events until ctx ends.
func (h *hub) tell(ctx context.Context, changed <-chan struct{}) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for n := 1; ; n++ {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-changed:
			due = true
		case <-t.C:
		}
		h.sendEvents(ctx)
		if due || n%stateTick == 0 {
			h.send(ctx, "state", h.state())
		}
	}
}

// happened is the message of events.
type happened struct {
	Events []Event `json:"events"`
	Lost   int     `json:"lost,omitempty"`
}

func (h *hub) sendEvents(ctx context.Context) {
	h.mu.Lock()
	m := happened{h.events, h.lost}
	h.events, h.lost = nil, 0
	h.mu.Unlock()
	if len(m.Events) > 0 {
		h.send(ctx, "events", &m)
	}
}

// send gives a message to all readers, and drops those that are too far behind.
func (h *hub) send(ctx context.Context, event string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		h.log.Info("the page cannot be written", "err", err)
		h.dropAll()
		return
	}
	// One line of JSON is one message: a newline in a string is escaped.
	b = append(append([]byte("event: "+event+"\nid: "+strconv.FormatInt(time.Now().UnixMilli(), 10)+"\ndata: "), b...), "\n\n"...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for r := range h.readers {
		select {
		case r.c <- b:
		default:
			h.dropLocked(r)
		}
	}
}

func (h *hub) dropAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		h.dropLocked(r)
	}
}

// close ends all readers, and waits for them.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.dropAll()
	h.left.Wait()
}
