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

// A descriptor that others vote on is not fetched if this authority would refuse the relay's
// version; what a vote does not say is judged when the descriptor has come.
func TestVersionsOfOthers(t *testing.T) {
	identities, signings := keyPool(t, 2048, 2), keyPool(t, 2048, 2)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 2, identities, signings, nil)
		at, v := all[0].startRound(), new(netdoc.Vote)
		want := map[[20]byte]bool{}
		for i, version := range []string{"Tor 0.4.8.23", "Tor 0.4.9.11", "Tor ", "", "Chive 0.1.0"} {
			rs := netdoc.RouterStatus{Nickname: "r", RSA: [20]byte{byte(i + 1)}, Ed: [32]byte{byte(i + 1)}, Addr: netip.AddrFrom4([4]byte{10, 0, 0, 1}), ORPort: 9001,
				Published: time.Now(), Descriptor: [20]byte{byte(i)}, Version: version, Flags: netdoc.FlagRunning}
			want[rs.Descriptor] = i > 0
			v.Routers = append(v.Routers, rs)
		}
		other := all[0].cfg.Network.Authorities[1]
		all[0].round.votes[other.V3Ident] = v
		got := all[0].lacking(peer{all[0], other})
		for _, d := range got {
			if !want[d] {
				t.Errorf("the descriptor of a relay of %s would be fetched", v.Routers[d[0]].Version)
			}
		}
		if len(got) != 4 {
			t.Errorf("%d descriptors would be fetched in the round of %v", len(got), at.start)
		}
	})
}
