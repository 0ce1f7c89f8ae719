package dirclient

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that is suspended stops its timers, and its clock goes on: once
// awake, the client must not wait for what was left of hours.
func TestSuspended(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		var asleep atomic.Int64 // for how long the machine was, so far
		now := func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }
		c := New(Config{Network: n.Network, Dialer: w, Now: now})
		stop := run(t, c)
		wait(t, c)
		time.Sleep(10 * time.Minute) // the certificates and all microdescriptors are here, and the timer runs
		for range 5 {
			for range 48 {
				asleep.Add(int64(time.Hour))
				if err := w.publish(0.01, false); err != nil {
					t.Fatal(err)
				}
			}
			if c.Ready(c.Directory(), now()) {
				t.Fatalf("a directory valid until %v is still good at %v", c.Directory().ValidUntil(), now())
			}
			time.Sleep(2 * longestSleep)
			if d := c.Directory(); !d.Live(now()) || !c.Ready(d, now()) {
				t.Errorf("two minutes awake, at %v: the directory is valid until %v, with %+v", now(), d.ValidUntil(), d.Usability())
			}
		}
		stop()
	})
}

// A clock that is set back must not keep the client from a consensus until the
// time is reached again.
func TestClockSetBack(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		ahead.Store(int64(30 * 24 * time.Hour))
		c := New(Config{Network: n.Network, Dialer: w, Now: now})
		stop := run(t, c)
		time.Sleep(time.Hour)
		if c.Directory() != nil {
			t.Fatal("a consensus of a month ago was taken")
		}
		ahead.Store(0)
		time.Sleep(2 * time.Hour)
		if d := c.Directory(); d == nil || !c.Ready(d, now()) {
			t.Error("no directory two hours after the clock was set right")
		}
		stop()
	})
}
