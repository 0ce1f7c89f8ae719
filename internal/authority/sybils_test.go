package authority

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Of the relays on one address, two may be in the consensus: authorities first, then the
// fastest. Relays that were not found reachable there do not count, whatever they claim.
func TestRelaysOnOneAddress(t *testing.T) {
	c := FlagConfig{}
	c.setDefaults()
	addr := netip.MustParseAddr("192.0.2.1")
	type relay struct {
		kb        uint32
		running   bool
		authority bool
		sybil     bool // expected
	}
	for _, x := range []struct {
		what   string
		relays []relay
	}{
		{"the fastest", []relay{{kb: 1, running: true, sybil: true}, {kb: 3, running: true}, {kb: 2, running: true}}},
		{"an authority first", []relay{{kb: 1, running: true, authority: true}, {kb: 3, running: true}, {kb: 2, running: true, sybil: true}}},
		{"fast ones that do not answer", []relay{{kb: 9}, {kb: 9}, {kb: 9}, {kb: 1, running: true}, {kb: 2, running: true}}},
		{"an authority that does not answer", []relay{{kb: 9, authority: true}, {kb: 1, running: true}, {kb: 2, running: true}}},
		{"none answers", []relay{{kb: 1}, {kb: 2}, {kb: 3}}},
	} {
		var all []*candidate
		authorities := map[ident.RSAID]bool{}
		for n, r := range x.relays {
			d := blackHole(n)
			d.Addr = addr
			authorities[d.RSA] = r.authority
			all = append(all, &candidate{d: d, running: r.running, creditKB: r.kb})
		}
		c.markSybils(all, authorities, false)
		for n, r := range x.relays {
			if all[n].sybil != r.sybil {
				t.Errorf("%s: relay %d: Sybil %v", x.what, n, all[n].sybil)
			}
		}
	}
}

// Relays that claim the address of others and do not answer there neither have those
// marked as Sybils nor keep new ones from being accepted. Relays over the limit keep their
// history of uptime.
func TestClaimedAddressOfOthers(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		addr := netip.MustParseAddr("198.51.100.1")
		on := func(n int) *netdoc.RouterDesc {
			d := blackHole(n)
			d.Addr, d.ORPort = addr, uint16(9001+n)
			d.BandwidthRate, d.BandwidthObserved = uint64(1e6*(n+1)), uint64(1e6*(n+1))
			return d
		}
		var liars []*netdoc.RouterDesc
		listed := map[ident.RSAID]netdoc.Flags{}
		for n := range perAddress*a.cfg.Flags.MaxServersPerIP + 1 { // more than may be there
			d := on(100 + n)
			listed[d.RSA] = netdoc.FlagRunning | netdoc.FlagValid // they run elsewhere
			liars = append(liars, d)
		}
		a.listed = listing{flags: listed}
		for n, d := range liars {
			if err := a.add(d, netip.AddrFrom4([4]byte{8, byte(n), 1, 1})); err != nil {
				t.Fatal(err)
			}
		}
		var honest []*netdoc.RouterDesc
		for n := range 3 {
			d := on(n)
			if err := a.add(d, addr); err != nil {
				t.Fatal("a relay on its own address:", err)
			}
			honest = append(honest, d)
		}
		up := func() {
			for _, d := range honest {
				a.relays.byRSA[d.RSA].probes[ipv4] = probe{reached: time.Now(), tried: time.Now()}
			}
		}
		vote := func() map[ident.RSAID]netdoc.Flags {
			up()
			v, err := a.makeVote(a.startRound())
			if err != nil {
				t.Fatal(err)
			}
			out := map[ident.RSAID]netdoc.Flags{}
			for _, rs := range v.Routers {
				out[rs.RSA] = rs.Flags
			}
			return out
		}
		vote()
		time.Sleep(10 * time.Hour)
		flags := vote()
		for n, d := range honest { // the third is the fastest
			if f := flags[d.RSA]; f.Has(netdoc.FlagSybil) != (n == 0) || f.Has(netdoc.FlagRunning) != (n != 0) {
				t.Errorf("relay %d: %v", n, f)
			}
			if r := a.histories.record(d.RSA, time.Now()); r.run != 36000 || r.wfu != 1 || r.mtbf != 36000 {
				t.Errorf("relay %d: history %+v", n, r)
			}
		}
		for n, d := range liars {
			if f := flags[d.RSA]; f.Has(netdoc.FlagRunning) || f.Has(netdoc.FlagSybil) {
				t.Errorf("liar %d: %v", n, f)
			}
		}
	})
}
