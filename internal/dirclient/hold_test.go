package dirclient

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHold: while fetches are held up there are none, neither at the start nor when the consensus is old, and then they go on.
func TestHold(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		held := make(chan struct{})
		open := make(chan struct{})
		close(open)
		gate := make(chan (<-chan struct{}), 1)
		gate <- held
		c := New(Config{Network: n.Network, Dialer: w, Hold: func(ctx context.Context) bool {
			now := <-gate
			gate <- now
			select {
			case <-now:
			case <-ctx.Done():
			}
			return ctx.Err() == nil
		}})
		stop := run(t, c)
		time.Sleep(time.Hour)
		if all := w.seen(); len(all) != 0 {
			t.Errorf("it asked: %v", all)
		}
		<-gate
		gate <- open
		close(held)
		wait(t, c)
		again := make(chan struct{})
		<-gate
		gate <- again
		asked := len(w.seen())
		for range 5 {
			if err := w.publish(0.05, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(n.Interval)
		}
		if all := w.seen(); len(all) > asked+1 { // it may have been on its way
			t.Errorf("it asked: %v", all[asked:])
		}
		asked = len(w.seen())
		<-gate
		gate <- open
		close(again)
		time.Sleep(n.Interval)
		if len(w.seen()) == asked || !c.Ready(c.Directory(), time.Now()) {
			t.Error("it does not go on")
		}
		<-gate
		gate <- make(chan struct{})
		time.Sleep(n.Interval)
		stop() // also while it is held up
	})
}
