package authority

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestUploadBounds: the relays that one address uploads, the relays that claim
// one address, and all strangers together are bounded; honest relays are
// accepted.
func TestUploadBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("short: thousands of uploads, one after another")
	}
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, func(c *Config) { c.Accept.MaxRelays = 5000 })
		hostile := netip.MustParseAddr("9.9.9.9")
		taken := 0
		for n := range 1000 {
			if a.add(blackHole(n), hostile) == nil {
				taken++
			}
		}
		if taken != maxFromSource {
			t.Errorf("%d relays of one address are taken", taken)
		}
		// Other relays claim the address of an honest relay.
		victim := blackHole(2000)
		taken = 0
		for n := range 100 {
			d := blackHole(3000 + n)
			d.Addr = victim.Addr
			if a.add(d, netip.AddrFrom4([4]byte{8, byte(n), 1, 1})) == nil {
				taken++
			}
		}
		if taken != perAddress*2 {
			t.Errorf("%d relays on one address are taken", taken)
		}
		if err := a.add(victim, victim.Addr); err != nil {
			t.Error("it is not taken from its own address:", err)
		}
		// The relay answers; then a flood comes from many addresses.
		a.relays.byRSA[victim.RSA].probes[ipv4].reached = time.Now()
		for n := range 4400 {
			d := blackHole(10000 + n)
			if err := a.add(d, netip.AddrFrom4([4]byte{7, byte(n >> 8), byte(n), 1})); err != nil {
				t.Fatal(n, err)
			}
		}
		if n := a.Relays(); n > maxStrangers+1 {
			t.Errorf("%d relays are kept", n)
		}
		if a.relays.byRSA[victim.RSA] == nil {
			t.Error("a known relay was removed for strangers")
		}
		if a.relays.byRSA[blackHole(0).RSA] == nil {
			t.Error("a relay of a small network was removed for those of a large one")
		}
		if n := len(a.docs.Descriptors()); n != a.Relays() {
			t.Errorf("%d descriptors of %d relays", n, a.Relays())
		}
		size := 0
		for n := range 400 { // large ones
			d := blackHole(20000 + n)
			d.Text = make([]byte, 10*maxDescriptorSize)
			_ = a.add(d, netip.AddrFrom4([4]byte{6, byte(n >> 8), byte(n), 1}))
		}
		for n := range 200 { // and growing ones
			d := blackHole(10000 + n + 2400)
			d.Text, d.Published, d.Digest[0] = make([]byte, 10*maxDescriptorSize), d.Published.Add(time.Second), 0xcc
			_ = a.add(d, netip.AddrFrom4([4]byte{7, byte(n >> 8), byte(n), 1}))
		}
		for _, d := range a.docs.Descriptors() {
			size += len(d.Bytes())
		}
		if size > maxStrangerBytes+300<<10 {
			t.Errorf("%d bytes of strangers", size)
		}
	})
}

// TestSavedDescriptors: saved descriptors can be read again, and known relays
// come before strangers.
func TestSavedDescriptors(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		for n := range 100 {
			d := blackHole(n)
			for i := range d.Text {
				d.Text[i] = byte(n)
			}
			if err := a.add(d, d.Addr); err != nil {
				t.Fatal(err)
			}
		}
		a.listed = listing{flags: map[ident.RSAID]netdoc.Flags{blackHole(42).RSA: netdoc.FlagRunning}}
		out := a.descriptorsLocked(10_000)
		if len(out) != 9000 || out[0] != 42 {
			t.Errorf("%d bytes, of relay %d first", len(out), out[0])
		}
	})
}

// TestVoteLeavesStrangersOut: many relays that were never reached do not make
// votes grow; a few of them are in the vote, and those that were reached once
// stay.
func TestVoteLeavesStrangersOut(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		for n := range maxSilentVoted + 2 {
			d := blackHole(n)
			if err := a.add(d, d.Addr); err != nil {
				t.Fatal(err)
			}
		}
		p := &a.relays.byRSA[blackHole(1).RSA].probes[ipv4]
		p.reached, p.tried, p.failed = time.Now().Add(-time.Hour), time.Now(), 3
		a.listed = listing{flags: map[ident.RSAID]netdoc.Flags{blackHole(2).RSA: netdoc.FlagRunning}}
		v, err := a.makeVote(a.startRound())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(v.Routers); n != maxSilentVoted+2 {
			t.Errorf("%d relays in the vote when %d never answered", n, maxSilentVoted)
		}
		d := blackHole(maxSilentVoted + 2)
		if err := a.add(d, d.Addr); err != nil {
			t.Fatal(err)
		}
		if v, err = a.makeVote(a.startRound()); err != nil {
			t.Fatal(err)
		}
		if len(v.Routers) != 2 || v.Routers[0].RSA != blackHole(1).RSA || v.Routers[1].RSA != blackHole(2).RSA {
			t.Errorf("%d relays in the vote", len(v.Routers))
		}
		if a.docs.Microdesc(a.relays.byRSA[blackHole(2).RSA].made.micro[0].digest) == nil {
			t.Error("no microdescriptor")
		}
	})
}

// TestReplaceBound: the rate at which one relay's descriptor is replaced is
// bounded.
func TestReplaceBound(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		taken := 0
		for n := range 100 {
			d := blackHole(1)
			d.Published = d.Published.Add(time.Duration(n) * time.Second)
			d.Digest[0], d.ORPort = byte(n), uint16(n+1)
			if a.add(d, d.Addr) == nil {
				taken++
			}
		}
		if taken != 1+replaceBurst {
			t.Errorf("it was replaced %d times", taken)
		}
		time.Sleep(time.Hour)
		d := blackHole(1)
		d.Digest[0] = 0xff
		if err := a.add(d, d.Addr); err != nil {
			t.Error(err)
		}
	})
}

// TestUploaders: the number of descriptors from one address that are checked is
// bounded.
func TestUploaders(t *testing.T) {
	u, now, from := uploaders{}, time.Unix(1e9, 0), netip.MustParseAddr("2001:db8::1")
	for n := range uploadBurst {
		from = from.Next()
		if !u.take(from, now) {
			t.Fatal(n)
		}
	}
	if u.take(from, now) || !u.take(netip.MustParseAddr("2001:db8:0:1::1"), now) {
		t.Error("a /64 is not one address")
	}
	if !u.take(from, now.Add(uploadEvery)) {
		t.Error("it is never taken again")
	}
	for n := range maxUploaders + 10 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(n))
		u.take(netip.AddrFrom4(a), now)
	}
	if len(u) > maxUploaders {
		t.Errorf("%d addresses are remembered", len(u))
	}
}

// TestPinsFull: when relays that are gone have used all pins, the pins of relays
// that were known longest stay, and new relays still get pins.
func TestPinsFull(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		a.maxPins = 64
		old, gone := blackHole(1), blackHole(2)
		pin := func(d *netdoc.RouterDesc) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.histories.note(d.RSA, true, time.Now())
			a.pinLocked(d)
		}
		if err := a.add(old, old.Addr); err != nil {
			t.Fatal(err)
		}
		pin(old)
		pin(gone)
		time.Sleep(24 * time.Hour)
		a.histories.note(gone.RSA, true, time.Now())
		for n := range 1000 {
			pin(blackHole(100 + n))
		}
		if len(a.pins.rsa) > a.maxPins || len(a.pins.ed) != len(a.pins.rsa) {
			t.Errorf("%d and %d pins", len(a.pins.rsa), len(a.pins.ed))
		}
		for _, d := range []*netdoc.RouterDesc{old, gone, blackHole(1099)} {
			if a.pins.check(d.RSA, ident.Ed25519ID{1}) == nil {
				t.Errorf("relay %x has no pin", d.RSA)
			}
		}
	})
}

// TestHistoriesBound: the histories of relays that are gone are bounded.
func TestHistoriesBound(t *testing.T) {
	var h histories
	now := time.Unix(1e9, 0)
	for n := range maxHistories + 1000 {
		d := blackHole(n)
		h.note(d.RSA, true, now)
	}
	h.note(blackHole(5).RSA, true, now.Add(time.Hour))
	h.forget(now)
	if len(h.Of) != maxHistories || h.known(blackHole(5).RSA) == 0 {
		t.Errorf("%d histories", len(h.Of))
	}
}

// TestClaimedAddress: a relay that claims the untested IPv6 address of another
// relay does not make that relay a Sybil.
func TestClaimedAddress(t *testing.T) {
	c := FlagConfig{}
	c.setDefaults()
	six := netip.MustParseAddrPort("[2001:db8::1]:9001")
	var all []*candidate
	for n := range 3 {
		d := blackHole(n)
		d.ORAddrs = []netip.AddrPort{six}
		all = append(all, &candidate{d: d, running: true, creditKB: uint32(1000 * n)})
	}
	if c.markSybils(all, nil, false); all[0].sybil {
		t.Error("a relay is a Sybil because of what others claim")
	}
	if c.markSybils(all, nil, true); !all[0].sybil || all[1].sybil || all[2].sybil {
		t.Error("three relays have the same tested address")
	}
}
