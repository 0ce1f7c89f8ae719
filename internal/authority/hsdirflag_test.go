package authority

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// A relay that claims to have been running for long does not become a directory of onion
// services before the authority has seen it for long enough, unless the authority itself
// is new.
func TestClaimedUptime(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 1, identities, signings, nil)
		a := all[0]
		r := newTestRelay(t, 0, relayKeys[0], onion)
		r.desc.Uptime = 30 * 24 * 3600
		hsdir := func() bool {
			if status, words := a.upload(netip.Addr{}, r.sign(t).Text); status != 200 {
				t.Fatal(words)
			}
			v, err := a.makeVote(a.startRound())
			if err != nil {
				t.Fatal(err)
			}
			return v.Routers[0].Flags.Has(netdoc.FlagHSDir)
		}
		if !hsdir() {
			t.Error("a new authority does not take the relay's word")
		}
		a.histories = histories{Started: time.Now().Add(-10 * 24 * time.Hour)}
		time.Sleep(time.Hour)
		if hsdir() {
			t.Error("HSDir at once")
		}
		time.Sleep(95 * time.Hour)
		if hsdir() {
			t.Error("HSDir too early")
		}
		time.Sleep(time.Hour)
		if !hsdir() {
			t.Error("no HSDir after 96 hours")
		}
	})
}
