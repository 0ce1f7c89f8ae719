package authority

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// The operator's word decides about MiddleOnly in each vote, whatever the consensus before
// says: two authorities of three leave the flag to no relay, and the third votes for it in
// every round, also after it was started again.
func TestMiddleOnlyStays(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	const lost = netdoc.FlagGuard | netdoc.FlagHSDir | netdoc.FlagV2Dir | netdoc.FlagExit
	synctest.Test(t, func(t *testing.T) {
		marked, other := newTestRelay(t, 0, relayKeys[0], onion), newTestRelay(t, 1, relayKeys[1], onion)
		list, err := ParseRelayList([]byte("!middleonly " + netdoc.RSADigest(&relayKeys[0].PublicKey).String()))
		if err != nil {
			t.Fatal(err)
		}
		with := func(i int, c *Config) {
			c.Flags = TestingFlags()
			c.Flags.ListMiddleOnly, c.Flags.VoteGuard, c.Flags.VoteHSDir = true, nil, nil
			if i == 0 {
				c.Accept.List, c.Dir = list, dir
			}
		}
		all, _ := inMemory(t, 3, identities, signings, with)
		upload := func() {
			for _, r := range []*testRelay{marked, other} {
				for _, a := range all {
					if status, words := a.upload(netip.Addr{}, r.sign(t).Text); status != 200 {
						t.Fatal(words)
					}
				}
			}
		}
		check := func(v *netdoc.Vote, round int) {
			t.Helper()
			for _, rs := range v.Routers {
				is := rs.RSA == netdoc.RSADigest(&relayKeys[0].PublicKey)
				if rs.Flags.Has(netdoc.FlagMiddleOnly) != is || is && rs.Flags&lost != 0 || !is && !rs.Flags.Has(netdoc.FlagHSDir) {
					t.Errorf("round %d: %s has %v", round, rs.Nickname, rs.Flags)
				}
			}
			if len(v.Routers) != 2 {
				t.Errorf("round %d: %d relays", round, len(v.Routers))
			}
		}
		upload()
		stop := run(t, all)
		for round := range 4 {
			time.Sleep(10 * time.Second)
			c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorNS), nil, nil)
			if err != nil || len(c.Routers) != 2 {
				t.Fatal(err)
			}
			for _, rs := range c.Routers {
				if rs.Flags.Has(netdoc.FlagMiddleOnly) || !rs.Flags.Has(netdoc.FlagHSDir) {
					t.Errorf("the consensus calls %s %v", rs.Nickname, rs.Flags)
				}
			}
			all[0].mu.Lock()
			doc, err := all[0].last[all[0].me].doc()
			all[0].mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			v, err := netdoc.ParseVote(doc.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			check(v, round)
		}
		stop()
		all, _ = inMemory(t, 3, identities, signings, with)
		v, err := all[0].makeVote(all[0].startRound())
		if err != nil {
			t.Fatal(err)
		}
		check(v, -1)
	})
}
