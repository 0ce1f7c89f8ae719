package dirclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
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

// certKeeper remembers the certificates that a cache would serve.
type certKeeper struct{ certs []*netdoc.AuthCert }

func (k *certKeeper) KeepConsensus([]byte)               {}
func (k *certKeeper) KeepMicrodesc([]byte)               {}
func (k *certKeeper) KeepCerts(certs []*netdoc.AuthCert) { k.certs = certs }

// A directory cache gets the certificate of an authority that has a new signing key, also
// when the signatures of the others are enough: C tor's clients ask for all, and warn of a
// cache that has none. So do clients that look like C tor's.
func TestCertificatesForOthers(t *testing.T) {
	for name, cfg := range map[string]Config{"cache": {Keeper: new(certKeeper), Early: true}, "common": {Common: true}, "fast": {}} {
		n := small(t, 60)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			cfg.Network, cfg.Dialer = n.Network, w
			c := New(cfg)
			stop := run(t, c)
			wait(t, c)
			before := len(c.certs.m)
			w.mu.Lock()
			err := n.Rekey(0, n.ValidAfter, n.ValidAfter.AddDate(0, 3, 0))
			w.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
				if err := w.publish(0.05, false); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
			synctest.Wait()
			stop()
			want := 1
			if name == "fast" {
				want = 0
			}
			if len(c.certs.m) != before+want || w.count("/tor/keys/fp-sk/") != want {
				t.Errorf("%s: %d certificates, then %d, and %d requests for others", name, before, len(c.certs.m), w.count("/tor/keys/fp-sk/"))
			}
			if k, ok := cfg.Keeper.(*certKeeper); ok && len(k.certs) != before+1 {
				t.Errorf("%s: clients can have %d", name, len(k.certs))
			}
		})
	}
}
