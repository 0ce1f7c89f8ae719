package dirclient

import (
	"testing"
	"testing/synctest"
	"time"
)

// Authorities may prolong certificates and keep their signing keys. A client whose
// certificates have expired fetches the new ones, which have the old ones' names.
func TestCertificatesProlonged(t *testing.T) {
	n := small(t, 60)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		certify := func(w *world, from, until time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := n.Certify(n.ValidAfter.Add(from), n.ValidAfter.Add(until)); err != nil {
				t.Fatal(err)
			}
		}
		w := newWorld(n)
		certify(w, -time.Hour, 2*time.Hour)
		c := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		stop := run(t, c)
		wait(t, c)
		certify(w, 0, 30*24*time.Hour)
		for range 12 {
			time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
			if err := w.publish(0.05, false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		stop()
		if d := c.Directory(); !d.Live(time.Now()) {
			t.Errorf("at %v, the directory is valid until %v", time.Now(), d.ValidUntil())
		}
		if asked := w.count("/tor/keys/"); asked != 2 {
			t.Errorf("certificates were asked for %d times", asked)
		}
		again := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		if again.Load(); again.Directory() == nil {
			t.Error("the new certificates are not on the disk")
		}
	})
}
