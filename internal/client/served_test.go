package client

import (
	"testing"
	"time"
)

// ending is a circuit that ends when a test says so.
type ending struct {
	ends   []func(error)
	closed int
}

func (e *ending) OnClose(f func(error)) { e.ends = append(e.ends, f) }

// end is what the circuit's end causes.
func (e *ending) end() {
	for _, f := range e.ends {
		f(nil)
	}
}

// TestServed: a circuit that has served closes at the first tick at which it is too old, or after a new identity; it
// closes once, and there are not more of them than the bound.
func TestServed(t *testing.T) {
	var s served
	keep := func() *ending {
		e := &ending{}
		s.keep(e, func() { e.closed++ })
		return e
	}
	const old = 10 * time.Minute
	now := time.Now()
	first := keep()
	s.reap(now, old)
	if first.closed != 0 {
		t.Error("it closes at once")
	}
	s.reap(now.Add(old+time.Second), old)
	first.end()
	s.reap(now.Add(2*old), old)
	if first.closed != 1 {
		t.Errorf("one that is too old: closed %d times", first.closed)
	}
	second := keep()
	s.newIdentity()
	if second.closed != 0 {
		t.Error("a new identity does not wait for the tick")
	}
	s.reap(now, old)
	if second.closed != 1 {
		t.Errorf("after a new identity: closed %d times", second.closed)
	}
	third := keep()
	third.end() // the guard has closed it
	if third.closed != 1 || len(s.all) != 0 {
		t.Errorf("one that has ended: closed %d times, and %d are kept", third.closed, len(s.all))
	}
	var all []*ending
	for range mostServed + 3 {
		all = append(all, keep())
	}
	closed := 0
	for i, e := range all {
		if closed += e.closed; e.closed > 0 && i >= 3 {
			t.Errorf("number %d of %d is closed", i, len(all))
		}
	}
	if closed != 3 || len(s.all) != mostServed {
		t.Errorf("%d are closed, and %d kept", closed, len(s.all))
	}
}
