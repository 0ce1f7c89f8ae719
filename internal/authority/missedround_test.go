package authority

import (
	"bytes"
	"context"
	"crypto/rsa"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// An authority that could not take part in a round gets its consensus from the others, also
// when they publish it a moment later than it asks at first: it does not serve the one before
// for a whole interval. It takes part in the next round.
func TestMissedRound(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	for name, late := range map[string]func(i int) bool{
		"they publish later":  func(i int) bool { return i != 2 },
		"they have published": func(i int) bool { return i == 2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { missRound(t, identities, signings, late) })
		})
	}
}

// missRound lets the last of three authorities miss a round. The clocks of those that are late
// are slow.
func missRound(t *testing.T, identities, signings []*rsa.PrivateKey, late func(i int) bool) {
	var away atomic.Bool
	all, w := inMemory(t, 3, identities, signings, func(i int, c *Config) {
		if late(i) {
			c.Now = func() time.Time { return time.Now().Add(-100 * time.Millisecond) }
		}
		if dial := c.Dial; i == 2 {
			c.Dial = func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
				if away.Load() {
					return nil, fault.New(fault.Network, "no network")
				}
				time.Sleep(time.Millisecond) // no network is faster
				return dial(ctx, addr)
			}
		}
	})
	here := func(yes bool) {
		away.Store(!yes)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cut[all[2].cfg.DirPort] = !yes
	}
	check := func(votes int) {
		t.Helper()
		c, err := netdoc.ParseConsensus(all[2].Consensus(netdoc.FlavorNS), nil, nil)
		if err != nil || !bytes.Equal(all[2].Consensus(netdoc.FlavorNS), all[0].Consensus(netdoc.FlavorNS)) {
			t.Fatalf("%v: at %v, it has the consensus of %v", err, time.Now(), c.ValidAfter)
		}
		if len(c.Sources) != votes {
			t.Errorf("at %v, it has a consensus of %d votes, not %d", time.Now(), len(c.Sources), votes)
		}
	}
	defer run(t, all)()
	time.Sleep(25 * time.Second)
	here(false) // rounds last ten seconds; votes come after six, and are fetched after seven
	time.Sleep(4500 * time.Millisecond)
	here(true) // it lacks the votes, and so the signatures of the others do not help it
	time.Sleep(2500 * time.Millisecond)
	check(2)
	time.Sleep(10 * time.Second)
	check(3)
}
