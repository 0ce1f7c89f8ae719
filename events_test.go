package chive

import (
	"fmt"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/client"
)

// start is the first event of a subscription.
func start() Event { return &BootstrapEvent{BootstrapStatus: BootstrapStatus{Percent: 7}} }

func TestEventHub(t *testing.T) {
	var h eventHub
	if h.wanted() {
		t.Error("there is no subscriber")
	}
	h.publish(&StreamEvent{}) // to nobody
	a, endA := h.subscribe(allEvents, false, start)
	b, endB := h.subscribe(allEvents, false, start)
	h.publish(&CircuitEvent{ID: 1})
	for _, ch := range []<-chan Event{a, b} {
		if e, ok := (<-ch).(*BootstrapEvent); !ok || e.Percent != 7 {
			t.Errorf("the first event is %+v", e)
		}
		if e, ok := (<-ch).(*CircuitEvent); !ok || e.ID != 1 {
			t.Errorf("got %+v", e)
		}
	}
	endA()
	endA() // once is enough, twice does no harm
	if _, ok := <-a; ok {
		t.Error("an ended subscription delivers")
	}
	// b does not read: it loses events, and publish does not wait for it.
	for i := range eventBuffer + 3 {
		h.publish(&StreamEvent{ID: uint64(i)})
	}
	if h.missed.Load() != 3 || len(b) != eventBuffer {
		t.Errorf("%d missed, %d waiting", h.missed.Load(), len(b))
	}
	h.close()
	endB()
	if h.wanted() {
		t.Error("closed")
	}
	late, end := h.subscribe(allEvents, false, start)
	end()
	if _, ok := <-late; ok {
		t.Error("a subscription after the end delivers")
	}
}

func TestEventHubConcurrently(t *testing.T) {
	var h eventHub
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_, end := h.subscribe(allEvents, false, start)
				h.publish(&CircuitEvent{})
				end()
			}
		})
	}
	wg.Wait()
	if h.wanted() {
		t.Error("subscribers are left")
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[fmt.Stringer]string{
		CircuitBuilding: "building", CircuitOpen: "open", CircuitFailed: "failed", CircuitClosed: "closed", CircuitState(9): "invalid",
		StreamOpening: "opening", StreamOpen: "open", StreamFailed: "failed", StreamClosed: "closed", StreamState(9): "invalid",
	} {
		if s.String() != want {
			t.Errorf("%d is %q", s, s)
		}
	}
	for s, want := range map[client.State][2]string{client.Opening: {"building", "opening"}, client.Open: {"open", "open"}, client.Failed: {"failed", "failed"}, client.Closed: {"closed", "closed"}} {
		if got := [2]string{circuitStates[s].String(), streamStates[s].String()}; got != want {
			t.Errorf("the client's %d is %q", s, got)
		}
	}
}

// TestSubscribe: a subscriber gets the kinds of events that it asked for, and learns where it lost some.
func TestSubscribe(t *testing.T) {
	var h eventHub
	defer h.close()
	circuits, _ := h.subscribe(CircuitEvents, true, start)
	h.publish(&StreamEvent{ID: 1})
	h.publish(start())
	for i := range eventBuffer + 3 {
		h.publish(&CircuitEvent{ID: uint64(i)})
	}
	if len(circuits) != eventBuffer+1 {
		t.Fatalf("%d wait", len(circuits))
	}
	next := func() Event {
		select {
		case e := <-circuits:
			return e
		default:
			t.Fatal("there is no event")
			return nil
		}
	}
	for i := range eventBuffer {
		if e, ok := next().(*CircuitEvent); !ok || e.ID != uint64(i) {
			t.Fatalf("%d: %+v", i, e)
		}
		h.publish(&CircuitEvent{ID: 1000}) // the first two find no place
	}
	if e, ok := next().(*LostEvent); !ok || e.Time.IsZero() {
		t.Fatalf("%+v", e)
	}
	for range eventBuffer - 1 {
		if e, ok := next().(*CircuitEvent); !ok || e.ID != 1000 {
			t.Fatalf("%+v", e)
		}
	}
	if len(circuits) != 0 {
		t.Errorf("%d wait", len(circuits))
	}
	if n := h.missed.Load(); n != 4 {
		t.Errorf("%d are lost", n)
	}
}
