package authority

import (
	"bytes"
	"cmp"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdoc"
)

// A parameter is in the consensus if a majority of the authorities votes on it, or three
// of them, with the low median of their values (dir-spec).
func TestParamVotes(t *testing.T) {
	for _, c := range []struct {
		authorities int
		values      []int32
		want        int32 // 0: not in the consensus
	}{
		{1, []int32{7}, 7},
		{2, []int32{7}, 0},
		{3, []int32{7}, 0},
		{3, []int32{9, 7}, 7},
		{4, []int32{9, 7}, 0},
		{4, []int32{9, 7, 8}, 8},
		{9, []int32{9, 7}, 0},
		{9, []int32{9, 7, 8}, 8},
		{9, []int32{4, 1, 3, 2}, 2},
		{9, []int32{5, 5, 5, 5, 1}, 5},
	} {
		k := &computation{rules: Rules{Authorities: c.authorities}}
		for _, v := range c.values {
			k.votes = append(k.votes, &netdoc.Vote{Params: netdoc.Params{{Name: "x", Value: v}}})
		}
		k.votes = append(k.votes, &netdoc.Vote{})
		got, ok := k.params().Lookup("x")
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("%v of %d authorities: %d %v", c.values, c.authorities, got, ok)
		}
	}
}

// The most frequent of some values; of those that are equally frequent, the greatest.
func TestMostFrequent(t *testing.T) {
	for _, c := range []struct {
		list        []int
		best, count int
	}{{nil, 0, 0}, {[]int{3}, 3, 1}, {[]int{1, 2}, 2, 1}, {[]int{2, 1, 2, 1, 3}, 2, 2}, {[]int{5, 1, 1}, 1, 2}, {[]int{4, 4, 1, 1, 4}, 4, 3}} {
		if best, count := mostFrequent(c.list, cmp.Compare[int]); best != c.best || count != c.count {
			t.Errorf("%v: %d, %d times", c.list, best, count)
		}
	}
}

// A shared random value needs a majority of the authorities, and a fresh one as many as
// the parameter says (srv-spec).
func TestSharedRandomVotes(t *testing.T) {
	for _, c := range []struct {
		authorities, votes, agree int
		fresh, want               bool
	}{
		{3, 2, 2, false, true}, {3, 1, 1, false, false}, {4, 2, 1, false, false}, {4, 3, 1, false, true},
		{9, 5, 6, false, true}, {9, 5, 6, true, false}, {9, 6, 6, true, true}, {9, 4, 3, true, false},
	} {
		k := &computation{rules: Rules{Authorities: c.authorities, FreshSRV: c.fresh}}
		value := &netdoc.SharedRandom{Reveals: 3, Value: [32]byte{1}}
		for i := range c.authorities {
			v := &netdoc.Vote{SharedRandParticipate: true}
			switch {
			case i < c.votes:
				v.SharedRandCurrent = value
			case i == c.votes:
				v.SharedRandParticipate, v.SharedRandCurrent = false, value // it takes no part
			}
			k.votes = append(k.votes, v)
		}
		got := k.sharedRandom(c.agree, func(v *netdoc.Vote) *netdoc.SharedRandom { return v.SharedRandCurrent })
		if (got != nil) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A flag needs more than half of the authorities that vote on it; a relay whose Ed25519
// identity no majority of all has is marked so; MiddleOnly costs a relay other flags.
func TestChosenFlags(t *testing.T) {
	voters := flagVoters{count: map[netdoc.Flags]int{netdoc.FlagRunning: 4, netdoc.FlagValid: 4, netdoc.FlagMiddleOnly: 1, netdoc.FlagExit: 4, netdoc.FlagGuard: 3}}
	all := netdoc.FlagRunning | netdoc.FlagValid | netdoc.FlagExit
	voters.known = []netdoc.Flags{all | netdoc.FlagGuard | netdoc.FlagMiddleOnly, all | netdoc.FlagGuard, all | netdoc.FlagGuard, all}
	say := func(reflects int, flags ...netdoc.Flags) (list []opinion) {
		for i, f := range flags {
			list = append(list, opinion{&netdoc.RouterStatus{Flags: f}, i, i < reflects})
		}
		return list
	}
	run := netdoc.FlagRunning | netdoc.FlagValid
	for _, c := range []struct {
		what   string
		list   []opinion
		want   netdoc.Flags
		listed bool
	}{
		{"three of four", say(3, run, run, run, 0), run, true},
		{"half", say(3, run, run, 0), 0, false},
		{"half have its identity", say(2, run, run, run), run | netdoc.FlagNoEdConsensus, true},
		{"running, and valid for two", say(3, run, run, netdoc.FlagRunning), netdoc.FlagRunning, false},
		{"Guard by two of the three that vote on it", say(4, run|netdoc.FlagGuard, run|netdoc.FlagGuard, run, run|netdoc.FlagGuard), run | netdoc.FlagGuard, true},
		{"Guard by one, and one who has no vote on it", say(4, run|netdoc.FlagGuard, run, run, run|netdoc.FlagGuard), run, true},
		{"MiddleOnly by the only one", say(4, run|netdoc.FlagMiddleOnly|netdoc.FlagExit, run|netdoc.FlagExit|netdoc.FlagGuard, run|netdoc.FlagExit|netdoc.FlagGuard, run), run | netdoc.FlagMiddleOnly | netdoc.FlagBadExit, true},
	} {
		if got, listed := voters.choose(c.list, 4, []string{"BadExit"}); got != c.want || listed != c.listed {
			t.Errorf("%s: %v, listed %v", c.what, got, listed)
		}
	}
}

// What makes a guard, and what a Sybil keeps.
func TestGuardAndSybil(t *testing.T) {
	var c FlagConfig
	c.setDefaults()
	c.ListBadExits = true
	now := time.Now()
	th := thresholds{stableUptime: time.Hour, fastKB: 100, guardWithExitsKB: 1000, guardNoExitsKB: 900, guardWFU: 0.9, guardTK: 1000}
	for _, x := range []struct {
		what   string
		change func(*candidate)
		want   bool
	}{
		{"all is well", func(*candidate) {}, true},
		{"too slow for Guard", func(r *candidate) { r.creditKB = 899 }, false},
		{"not stable", func(r *candidate) { r.uptime = time.Minute }, false},
		{"no directory cache", func(r *candidate) { r.d.TunnelledDir = false }, false},
		{"often away", func(r *candidate) { r.record.wfu = 0.89 }, false},
		{"not known for long", func(r *candidate) { r.record.tk = 999 }, false},
	} {
		r := &candidate{d: &netdoc.RouterDesc{TunnelledDir: true, Published: now}, running: true, creditKB: 900, uptime: 2 * time.Hour, record: record{wfu: 0.9, tk: 1000}}
		x.change(r)
		if f := c.flags(r, &th, false, now); f.Has(netdoc.FlagGuard) != x.want {
			t.Errorf("%s: %v", x.what, f)
		}
	}
	r := &candidate{d: &netdoc.RouterDesc{TunnelledDir: true, Published: now.Add(-20 * time.Hour)}, running: true, creditKB: 900, uptime: 2 * time.Hour,
		record: record{wfu: 1, tk: 1e6}, exit: true, status: statusBadExit, sybil: true}
	if f := c.flags(r, &th, false, now); f != netdoc.FlagSybil|netdoc.FlagBadExit|netdoc.FlagStaleDesc {
		t.Errorf("a Sybil has %v", f)
	}
	// The threshold without exits is that of the relays that are none, or bad ones.
	var all []*candidate
	for i := range 8 {
		one := &candidate{d: &netdoc.RouterDesc{}, running: true, creditKB: uint32(100 * (i + 1)), exit: i >= 2}
		if i == 2 || i == 3 {
			one.status = statusBadExit
		}
		all = append(all, one)
	}
	got := c.thresholds(all, false, false, nil)
	if got.guardWithExitsKB != 700 || got.guardNoExitsKB != 400 { // of 100, 200, 300, 400
		t.Errorf("%+v", got)
	}
}

// Only good signatures of the round's own consensuses are added to these.
func TestAttachedSignatures(t *testing.T) {
	const n = 3
	identities, signings := keyPool(t, 2048, n), keyPool(t, 2048, n)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, n, identities, signings, nil)
		votes := votesOf(t, all)
		var documents []*netdoc.DetachedSignatures
		var text []byte // of one of them
		for i, a := range all {
			for _, v := range votes {
				if err := a.addVote(v, true); err != nil {
					t.Fatal(err)
				}
			}
			if i == 0 {
				continue
			}
			own, err := a.compute()
			if err != nil {
				t.Fatal(err)
			}
			d, err := netdoc.ParseDetachedSignatures(own)
			if err != nil {
				t.Fatal(err)
			}
			documents, text = append(documents, d), own
		}
		a := all[0]
		// Before the consensus is computed, those of another time are refused.
		late := *documents[0]
		late.ValidAfter = late.ValidAfter.Add(time.Hour)
		if _, err := a.addSignatures(&late, netip.Addr{}); err == nil {
			t.Error("signatures of another time are kept")
		}
		// Those of a round that it has left out are no mistake of the sender's.
		earlier := *documents[0]
		earlier.ValidAfter = time.Now().Add(time.Millisecond)
		for range 2 {
			if n, err := a.addSignatures(&earlier, netip.Addr{}); n != 0 || !errors.Is(err, errLeftOut) {
				t.Errorf("signatures of an earlier round: %v", err)
			}
			earlier.ValidAfter = a.round.start.Add(-time.Millisecond)
		}
		earlier.ValidAfter = time.Now()
		if _, err := a.addSignatures(&earlier, netip.Addr{}); err == nil || errors.Is(err, errLeftOut) {
			t.Errorf("signatures of a round that is over: %v", err)
		}
		start := a.round.start
		for other, status := range map[time.Duration]int{time.Hour: 200, -time.Hour: 400} {
			a.round.start = start.Add(other)
			if r := a.post(dirserver.Peer{}, &dirserver.Request{Method: "POST", Path: "/tor/post/consensus-signature", Body: text}); r.Status != status {
				t.Errorf("signatures of another round, posted: %d, not %d", r.Status, status)
			}
		}
		a.round.start = start
		if _, err := a.compute(); err != nil {
			t.Fatal(err)
		}
		count := func() (n int) {
			for _, c := range a.round.pending {
				n += len(c.Signatures)
			}
			return n
		}
		if count() != 2 {
			t.Fatalf("%d signatures of its own", count())
		}
		forged := *documents[0]
		forged.Signatures = nil
		for _, s := range documents[0].Signatures {
			s.Sig = bytes.Clone(s.Sig)
			s.Sig[9] ^= 1
			forged.Signatures = append(forged.Signatures, s)
		}
		if n, _ := a.addSignatures(&forged, netip.Addr{}); n != 0 || count() != 2 {
			t.Errorf("%d forged signatures were added", n)
		}
		swapped := *documents[0]
		swapped.Signatures = nil
		for _, s := range documents[0].Signatures {
			s.Flavor = map[string]string{"ns": "microdesc", "microdesc": "ns"}[s.Flavor]
			swapped.Signatures = append(swapped.Signatures, s)
		}
		if n, _ := a.addSignatures(&swapped, netip.Addr{}); n != 0 || count() != 2 {
			t.Errorf("%d signatures of the other flavor were added", n)
		}
		half := *documents[0] // of another microdesc consensus
		half.Flavors = []netdoc.FlavorDigest{{Flavor: "microdesc", SHA256: [32]byte{1}}}
		if n, err := a.addSignatures(&half, netip.Addr{}); n != 1 || err == nil || count() != 3 {
			t.Errorf("%d signatures of two consensuses were added, one of which is another: %v", n, err)
		}
		for i, want := range []int{1, 2} { // the first document's ns signature is there
			if n, err := a.addSignatures(documents[i], netip.Addr{}); n != want || err != nil {
				t.Errorf("document %d: %d good signatures were added: %v", i, n, err)
			}
		}
		if n, _ := a.addSignatures(documents[1], netip.Addr{}); n != 0 || count() != 6 {
			t.Errorf("again: %d signatures, %d in all", n, count())
		}
	})
}
