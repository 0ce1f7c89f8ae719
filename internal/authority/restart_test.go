package authority

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// An authority that was started again votes before it could test all relays. It does not
// take those that the consensus lists for relays that have failed: a vote against all of
// them would cost the network its relays, and the end of a run costs each its flags.
func TestRestartBeforeTests(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		down := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, fault.New(fault.Network, "no answer")
		}
		all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Dir = dir })
		stop := run(t, all)
		d := newTestRelay(t, 0, relayKeys[0], onion).sign(t)
		if status, words := all[0].upload(netip.Addr{}, d.Text); status != 200 {
			t.Fatal(words)
		}
		time.Sleep(15 * time.Second)
		stop()
		again, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) {
			c.Dir, c.Accept.AssumeReachable, c.Dial = dir, false, down
		})
		a := again[0]
		v, err := a.makeVote(a.startRound())
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Routers) != 1 || !v.Routers[0].Flags.Has(netdoc.FlagRunning) && slices.Contains(v.KnownFlags, "Running") {
			t.Errorf("a vote against a relay that was not tested: %+v", v.Routers)
		}
		if h := a.histories.Of[d.RSA.String()]; h == nil || !h.Up || h.Runs != 0 {
			t.Errorf("the relay's run has ended: %+v", h)
		}
		stop = a.testing(t)
		defer stop()
		within(t, reachableFor+testEvery, "taken for a relay that is down", func() bool { return !a.isRunning(d) })
	})
}

// TestRestartServes: an authority that was started again serves the microdescriptors of its consensus before it votes.
func TestRestartServes(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		keep := func(_ int, c *Config) { c.Dir = dir }
		all, _ := inMemory(t, 1, identities, signings, keep)
		stop := run(t, all)
		if status, words := all[0].upload(netip.Addr{}, newTestRelay(t, 0, relayKeys[0], onion).sign(t).Text); status != 200 {
			t.Fatal(words)
		}
		time.Sleep(15 * time.Second)
		stop()
		before, _ := all[0].listedMicrodescs()
		again, _ := inMemory(t, 1, identities, signings, keep)
		if len(before) != 1 {
			t.Fatalf("%d relays are listed", len(before))
		}
		for d := range before {
			if again[0].docs.Microdesc(d) == nil {
				t.Error("a listed microdescriptor is not served")
			}
		}
	})
}
