package tord

import (
	"errors"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
)

func TestCircuitEvent(t *testing.T) {
	a, b := "aa00000000000000000000000000000000000001", "BB00000000000000000000000000000000000002"
	both := []string{a, b}
	const path = "$AA00000000000000000000000000000000000001~one,$BB00000000000000000000000000000000000002"
	for _, c := range []struct {
		e    chive.CircuitEvent
		want string
	}{
		{chive.CircuitEvent{ID: 7}, "7 LAUNCHED"},
		{chive.CircuitEvent{ID: 7, State: chive.CircuitOpen, Path: both, Nicknames: []string{"one", ""}}, "7 BUILT " + path},
		{chive.CircuitEvent{ID: 7, State: chive.CircuitClosed, Path: both, Nicknames: []string{"one"}}, "7 CLOSED " + path + " REASON=FINISHED"},
		{chive.CircuitEvent{ID: 7, State: chive.CircuitClosed, Err: errors.New("x")}, "7 CLOSED REASON=DESTROYED"},
		{chive.CircuitEvent{ID: 7, State: chive.CircuitFailed, Err: errors.New("x")}, "7 FAILED REASON=NONE"},
		{chive.CircuitEvent{ID: 7, State: chive.CircuitFailed, Err: fault.New(fault.Timeout, "x")}, "7 FAILED REASON=TIMEOUT"},
	} {
		if got := circuitEvent(&c.e); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestStreamEvent(t *testing.T) {
	for _, c := range []struct {
		e    chive.StreamEvent
		want string
	}{
		{chive.StreamEvent{ID: 3}, "3 NEW 0 (hidden):0"},
		{chive.StreamEvent{ID: 3, Circuit: 9, State: chive.StreamOpen}, "3 SUCCEEDED 9 (hidden):0"},
		{chive.StreamEvent{ID: 3, Circuit: 9, State: chive.StreamClosed}, "3 CLOSED 9 (hidden):0 REASON=DONE"},
		{chive.StreamEvent{ID: 3, State: chive.StreamFailed, Err: fault.New(fault.Timeout, "x")}, "3 CLOSED 0 (hidden):0 REASON=TIMEOUT"},
		{chive.StreamEvent{ID: 3, State: chive.StreamFailed, Err: errors.New("x")}, "3 CLOSED 0 (hidden):0 REASON=MISC"},
	} {
		if got := streamEvent(&c.e); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
