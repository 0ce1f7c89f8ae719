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
	a, endA := h.subscribe(start)
	b, endB := h.subscribe(start)
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
	late, end := h.subscribe(start)
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
				_, end := h.subscribe(start)
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
