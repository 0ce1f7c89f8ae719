package dirclient

import (
	"testing"
	"testing/synctest"
	"time"
)

// A client on a slow link gets its directory, too: an answer that comes slowly is not
// given up for another one, which would come as slowly.
func TestSlowLink(t *testing.T) {
	n := small(t, 300)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.rate = len(n.Consensus) / 100 // the consensus takes 100 seconds, the rest minutes
		c := New(Config{Network: n.Network, Dialer: w})
		stop := run(t, c)
		wait(t, c)
		if got := w.count("/tor/status-vote/"); got != 1 {
			t.Errorf("%d requests for the consensus", got)
		}
		stop()
		time.Sleep(time.Minute) // virtual: the caches notice it
	})
}

// An answer of microdescriptors that is cut off is not lost: what came of it is kept.
func TestCutAnswers(t *testing.T) {
	n := small(t, 300)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.cut = 20000
		c := New(Config{Network: n.Network, Dialer: w})
		stop := run(t, c)
		defer stop()
		wait(t, c)
	})
}
