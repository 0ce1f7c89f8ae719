package authority

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// An authority that was away while a relay uploaded its descriptor gets it from the others:
// the relay uploads no other one for hours, and when another authority ends meanwhile, the
// two that run must still agree on the relay. It does not get what it would refuse, and
// nothing of relays that the others could not reach.
func TestDescriptorsOfOthers(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	relayKeys, onion := keyPool(t, 1024, 3), keyPool(t, 1024, 1)[0]
	synctest.Test(t, func(t *testing.T) {
		list, err := ParseRelayList([]byte("!reject " + netdoc.RSADigest(&relayKeys[1].PublicKey).String() + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := inMemory(t, 3, identities, signings, func(i int, c *Config) {
			if i == 2 {
				c.Accept.List = list
			}
			c.Accept.AssumeReachable = i != 1
		})
		good, refused, silent := newTestRelay(t, 0, relayKeys[0], onion).sign(t), newTestRelay(t, 1, relayKeys[1], onion).sign(t), newTestRelay(t, 2, relayKeys[2], onion).sign(t)
		give := func(a *Authority, docs ...*netdoc.RouterDesc) {
			for _, d := range docs {
				if status, words := a.upload(netip.Addr{}, d.Text); status != 200 {
					t.Fatal(words)
				}
			}
		}
		give(all[0], good, refused)
		give(all[1], silent)
		stop0, stop1, stop2 := run(t, all[:1]), run(t, all[1:2]), run(t, all[2:])
		defer stop0()
		defer stop2()
		time.Sleep(15 * time.Second)
		stop1()
		time.Sleep(30 * time.Second)
		if all[2].Relays() != 1 || all[2].docs.Descriptor(good.Digest) == nil || all[0].Relays() != 2 {
			t.Errorf("%d and %d relays", all[2].Relays(), all[0].Relays())
		}
		c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorNS), nil, nil)
		if err != nil || len(c.Sources) != 2 || len(c.Routers) != 1 || c.Routers[0].Descriptor != good.Digest {
			t.Errorf("%v: %+v", err, c)
		}
	})
}
