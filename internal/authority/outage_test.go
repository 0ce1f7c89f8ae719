package authority

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// While the authorities cannot make a consensus, clients start with the last one. An
// authority has all microdescriptors that it names, also of relays with new descriptors.
func TestMicrodescsInOutage(t *testing.T) {
	identities, signings := keyPool(t, 2048, 2), keyPool(t, 2048, 2)
	relayKeys, onions := keyPool(t, 1024, 1), keyPool(t, 1024, 2)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 2, identities, signings, func(_ int, c *Config) { c.WaitForRelays = 1 })
		stop, stopOther := run(t, all[:1]), run(t, all[1:])
		upload := func(r *testRelay) {
			d := r.sign(t)
			for _, a := range all {
				if status, words := a.upload(netip.Addr{}, d.Text); status != 200 {
					t.Fatal(words)
				}
			}
		}
		r := newTestRelay(t, 0, relayKeys[0], onions[0])
		upload(r)
		time.Sleep(15 * time.Second)
		stopOther()
		c, err := netdoc.ParseConsensus(all[0].Consensus(netdoc.FlavorMicrodesc), nil, nil)
		if err != nil || len(c.Routers) != 1 {
			t.Fatalf("%v: %+v", err, c)
		}
		r.desc.Policy = netdoc.ExitPolicy{{Accept: true, Ports: netdoc.PortRange{Lo: 80, Hi: 80}}, {Ports: netdoc.AllPorts}}
		upload(r)
		time.Sleep(10 * time.Second) // a round that fails
		if now := time.Now(); !now.Before(c.ValidUntil) {
			t.Fatalf("at %v, the consensus was valid until %v", now, c.ValidUntil)
		}
		if all[0].docs.Microdesc(c.Routers[0].Microdesc) == nil {
			t.Error("the authority has dropped a microdescriptor that the valid consensus names")
		}
		stop()
	})
}

// An authority that is killed after its vote keeps the commitment that the others have:
// they take no other one until the next run of the protocol.
func TestCommitmentSurvives(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := func() *Authority {
			all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Dir = dir })
			return all[0]
		}
		killed, again := start(), (*Authority)(nil)
		at := killed.startRound()
		killed.castVote(t.Context(), at)
		again = start()
		again.startRound()
		if old, now := killed.sr.lines(), again.sr.lines(); len(old) != 1 || !slices.Equal(old, now) {
			t.Errorf("before: %q, afterwards: %q", old, now)
		}
	})
}
