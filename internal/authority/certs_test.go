package authority

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// An authority may prolong its certificate and keep the signing key. The others take the
// new certificate from its vote, and its signatures count when the old one has expired.
func TestCertificateProlonged(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	synctest.Test(t, func(t *testing.T) {
		certify := func(i int, until time.Duration) *netdoc.AuthCert {
			now := time.Now().Truncate(time.Second)
			crt, err := netdoc.MakeAuthCert(rand.Reader, identities[i], signings[i], netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80), now, now.Add(until))
			if err != nil {
				t.Fatal(err)
			}
			return crt
		}
		all, w := inMemory(t, 3, identities, signings, func(i int, c *Config) {
			if i > 0 {
				c.Keys.Cert = certify(i, time.Minute)
			}
		})
		stop := run(t, all[:1])
		stopOthers := run(t, all[1:])
		time.Sleep(20 * time.Second)
		stopOthers()
		for i := 1; i < 3; i++ { // they start again, with new certificates
			cfg := all[i].cfg
			cfg.Keys.Cert = certify(i, time.Hour)
			var err error
			if all[i], err = New(cfg); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			w.at[cfg.DirPort] = all[i]
			w.mu.Unlock()
		}
		stopOthers = run(t, all[1:])
		time.Sleep(2 * time.Minute)
		now := time.Now()
		c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorNS), nil, nil)
		if err != nil || now.After(c.FreshUntil) || len(c.Signatures) < 2 {
			t.Errorf("%v: at %v the first authority's consensus is fresh until %v, with %d signatures", err, now, c.FreshUntil, len(c.Signatures))
		}
		stopOthers()
		stop()
	})
}
