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

// A relay that a recent consensus calls a directory of onion services need not have been
// up for 96 hours. All other requirements apply to it as to others.
func TestHSDirRequirements(t *testing.T) {
	now := time.Now()
	var c FlagConfig
	c.setDefaults()
	th := thresholds{stableUptime: time.Hour, fastKB: 100}
	for _, x := range []struct {
		what   string
		change func(*candidate)
		want   bool
	}{
		{"all is well", func(*candidate) {}, true},
		{"it was none, and is up for too short a time", func(r *candidate) { r.wasHSDir = false }, false},
		{"it was none, and is up for long enough", func(r *candidate) { r.wasHSDir, r.seen = false, 96*time.Hour }, true},
		{"it is not willing", func(r *candidate) { r.d.HSDir = false }, false},
		{"it is no directory cache", func(r *candidate) { r.d.TunnelledDir = false }, false},
		{"it hibernates", func(r *candidate) { r.d.Hibernating = true }, false},
		{"it does not run", func(r *candidate) { r.running = false }, false},
		{"it is not valid", func(r *candidate) { r.status = statusInvalid }, false},
		{"it is slow", func(r *candidate) { r.creditKB = 99 }, false},
		{"it is not stable", func(r *candidate) { r.uptime = time.Minute }, false},
		{"it is for the middle only", func(r *candidate) { r.status = statusMiddleOnly }, false},
		{"the operator says no", func(r *candidate) { r.status = statusStripHSDir }, false},
	} {
		r := &candidate{d: &netdoc.RouterDesc{HSDir: true, TunnelledDir: true, Published: now}, running: true, creditKB: 100,
			uptime: 2 * time.Hour, seen: 2 * time.Hour, wasHSDir: true}
		x.change(r)
		c.ListMiddleOnly = true
		if f := c.flags(r, &th, false, now); f.Has(netdoc.FlagHSDir) != x.want {
			t.Errorf("%s: flags %v", x.what, f)
		}
	}
}

// A directory of onion services that is started again stays one, also if the authority is
// started again.
func TestHSDirAfterRestart(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		with := func(_ int, c *Config) { c.Dir = dir }
		all, _ := inMemory(t, 1, identities, signings, with)
		r := newTestRelay(t, 0, relayKeys[0], onion)
		r.desc.Uptime = 30 * 24 * 3600
		upload := func() {
			t.Helper()
			if status, words := all[0].upload(netip.Addr{}, r.sign(t).Text); status != 200 {
				t.Fatal(words)
			}
		}
		hsdir := func() bool {
			t.Helper()
			v, err := all[0].makeVote(all[0].startRound())
			if err != nil {
				t.Fatal(err)
			}
			return v.Routers[0].Flags.Has(netdoc.FlagHSDir)
		}
		upload()
		stop := run(t, all)
		time.Sleep(15 * time.Second)
		stop()
		if all[0].Consensus(netdoc.FlavorNS) == nil {
			t.Fatal("no consensus")
		}
		r.desc.Uptime = 0
		upload()
		if !hsdir() {
			t.Error("after the relay's restart it is none")
		}
		all, _ = inMemory(t, 1, identities, signings, with)
		if !hsdir() {
			t.Error("after the authority's restart it is none")
		}
		// The consensus is valid for half a minute.
		time.Sleep(23 * time.Hour)
		upload()
		if !hsdir() {
			t.Error("after some hours without a consensus it is none")
		}
		time.Sleep(2 * time.Hour)
		upload()
		if hsdir() {
			t.Error("days after the last consensus it is one")
		}
	})
}
