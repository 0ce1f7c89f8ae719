package hsservice

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/hspow"
)

// TestIdleBound: circuits without streams are bounded in number. The one that has been idle for
// the longest time makes room, if its client has done less work than is suggested, or all have.
func TestIdleBound(t *testing.T) {
	s, now := quiet(t), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(age time.Duration, streams int64) *circuit.Circuit {
		c := new(circuit.Circuit)
		r := &clientCircuit{idle: now.Add(-age)}
		r.open.Store(streams)
		s.clients[c] = r
		return c
	}
	for range maxIdle - 1 {
		add(time.Second, 0)
	}
	busy := add(time.Hour, 1)
	oldest := add(time.Minute, 0)
	s.boundIdleLocked()
	if s.clients[oldest] == nil || len(s.clients) != maxIdle+1 {
		t.Fatal("one was closed although there was room")
	}
	// Closing needs a circuit that is one: only the choice is looked at.
	if got := s.worstIdleLocked(maxIdle); got != nil {
		t.Error("one would be closed although there is room")
	}
	add(0, 0)
	if got := s.worstIdleLocked(maxIdle); got != oldest || got == busy {
		t.Error("another one makes room")
	}
	// Where work is suggested, those that have done it are the last.
	cheap := add(10*time.Second, 0)
	for c, r := range s.clients {
		if r.effort = 20; c == cheap {
			r.effort = 19
		}
	}
	if s.worstIdleLocked(maxIdle) != oldest {
		t.Error("an effort counts that nobody suggests")
	}
	s.work.control.Update(now, 20, false)
	for range 20 {
		s.work.control.Served(true)
		s.work.control.Update(now.Add(hspow.ControlEvery), 1000, false)
		now = now.Add(hspow.ControlEvery)
	}
	if s.work.suggested() != 20 || s.worstIdleLocked(maxIdle) != cheap {
		t.Errorf("effort %d is suggested, and another one makes room", s.work.suggested())
	}
	clear(s.clients) // they are none that can be closed
}
