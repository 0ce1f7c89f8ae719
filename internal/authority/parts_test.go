package authority

import (
	"bytes"
	"crypto/rand"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Intervals count from midnight. If less than half of an interval would remain at
// the end of a day, the last interval is longer instead.
func TestStartAfter(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.DateTime, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		now      string
		interval time.Duration
		want     string
	}{
		{"2026-11-21 12:00:00", time.Hour, "2026-11-21 13:00:00"},
		{"2026-11-21 12:59:59", time.Hour, "2026-11-21 13:00:00"},
		{"2026-11-21 23:30:00", 50 * time.Minute, "2026-11-22 00:00:00"}, // half of 50 minutes would be cut off
		{"2026-11-21 23:10:00", 50 * time.Minute, "2026-11-21 23:20:00"},
		{"2026-11-21 23:59:59", 10 * time.Second, "2026-11-22 00:00:00"},
	} {
		if got := startAfter(at(c.now), c.interval); !got.Equal(at(c.want)) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, i := range []time.Duration{time.Second, 7 * time.Second, 50 * time.Minute, time.Hour, 24 * time.Hour} {
		now := at("2026-11-21 00:00:00").Add(-time.Minute)
		for range 200 {
			now = now.Add(777 * time.Second / 10)
			if got := startAfter(now, i); !got.After(now) || got.Sub(now) > 3*i/2 {
				t.Fatalf("%v, %v: %v", now, i, got)
			}
		}
	}
}

func TestRoundFitsDelays(t *testing.T) {
	s := Schedule{InitialInterval: time.Second, InitialVoteDelay: 200 * time.Millisecond, InitialDistDelay: 200 * time.Millisecond}
	now := time.Date(2026, 11, 21, 12, 0, 0, 650e6, time.UTC) // fetching begins at .700
	r := s.round(now, nil)
	if r.start.Sub(now) != 350*time.Millisecond || r.compute != r.start.Add(-200*time.Millisecond) || r.vote != r.start.Add(-400*time.Millisecond) {
		t.Errorf("%+v", r)
	}
	if r = s.round(now.Add(60*time.Millisecond), nil); r.start.Sub(now) != 1350*time.Millisecond {
		t.Errorf("a round was joined too late: %+v", r)
	}
	r = s.round(now, &lifetime{10 * time.Second, 5 * time.Second, 5 * time.Second})
	if r.start.Sub(r.vote) != 4*time.Second { // 10 s / 4, in whole seconds, as C tor has it
		t.Errorf("%v", r.start.Sub(r.vote))
	}
}

// A run of the protocol by three authorities, one of which never reveals its
// number.
func TestSharedRandom(t *testing.T) {
	ids := []ident.RSAID{{1}, {2}, {3}}
	states := make([]sharedRandom, 3)
	interval := 10 * time.Second
	at := time.Unix(24*10*1000, 0)
	for n := range 24 {
		for i := range states {
			if err := states[i].update(rand.Reader, ids[i], ids, at, interval); err != nil {
				t.Fatal(err)
			}
		}
		if states[0].Reveal != (n >= 12) {
			t.Errorf("round %d: revealing: %v", n, states[0].Reveal)
		}
		for i := range states {
			for j := range states {
				lines := states[j].lines()
				if j == 2 && n >= 12 {
					continue
				}
				states[i].receive(ids[j], lines)
				states[i].receive([20]byte{9}, lines) // lines that another authority repeats are ignored
			}
			if len(states[i].Commits) != 3 {
				t.Fatalf("round %d: %d commitments", n, len(states[i].Commits))
			}
		}
		at = at.Add(interval)
	}
	for i := range states {
		if err := states[i].update(rand.Reader, ids[i], ids, at, interval); err != nil {
			t.Fatal(err)
		}
	}
	// The third also knows its own number: a majority decides.
	if *states[0].Current != *states[1].Current || states[0].Current.Reveals != 2 || states[2].Current.Reveals != 3 || !states[0].Fresh {
		t.Errorf("%+v %+v %+v", states[0].Current, states[1].Current, states[2].Current)
	}
	c := &netdoc.Consensus{}
	c.SharedRandCurrent = states[0].Current
	states[2].published(c)
	if states[2].Current != states[0].Current || states[2].Fresh {
		t.Error("the majority's value was not taken over")
	}
}

func TestCommit(t *testing.T) {
	c, err := newCommit(rand.Reader, ident.RSAID{7}, time.Unix(1e9, 0))
	if err != nil || !c.Opens() {
		t.Fatal(err, c)
	}
	back, err := ParseCommit(c.String())
	if err != nil || back != c {
		t.Errorf("%v: %v", err, back)
	}
	other, err := newCommit(rand.Reader, ident.RSAID{7}, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	c.Reveal = other.Reveal
	if c.Opens() {
		t.Error("another's number opens a commitment")
	}
	// Chive can open what C tor wrote.
	n := 0
	for _, v := range readVotes(t, "three") {
		for _, l := range v.SharedRandCommits {
			c, err := ParseCommit(l)
			if err != nil || (c.Reveal != "" && !c.Opens()) {
				t.Errorf("%q: %v", l, err)
			}
			n++
		}
	}
	if n == 0 {
		t.Log("C tor's votes were made in a round without commitments")
	}
}

const sampleBandwidths = "1700000000\nversion=1.4.0\nsoftware=sbws\n=====\nbw=380 error_circ=0 node_id=$68A483E05A2ABDCA6DA5A3EF8DB5177638A27F80 nick=Test\n" +
	"node_id=0011BD2485AD45D984EC4159C88FC066E5E3300E bw=1 vote=0\nnode_id=$0011BD2485AD45D984EC4159C88FC066E5E3300E bw=7\nbw=5\nlate=header\nnode_id=$AAAABD2485AD45D984EC4159C88FC066E5E3300E bw=9"

func TestBandwidths(t *testing.T) {
	now := time.Unix(1700000000, 0).Add(time.Hour)
	b, err := ParseBandwidths([]byte(sampleBandwidths), now)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := ident.ParseRSAID("68A483E05A2ABDCA6DA5A3EF8DB5177638A27F80")
	two, _ := ident.ParseRSAID("0011BD2485AD45D984EC4159C88FC066E5E3300E")
	if len(b.Of) != 2 || b.Of[one] != 380 || b.Of[two] != 7 || b.Headers != "timestamp=1700000000 version=1.4.0 software=sbws" {
		t.Errorf("%+v", b)
	}
	if _, err := ParseBandwidths([]byte(sampleBandwidths), now.AddDate(0, 0, 4)); err == nil {
		t.Error("an old file was used")
	}
	for _, bad := range []string{"", "x\n", "-5\n", "1700000000"} {
		if _, err := ParseBandwidths([]byte(bad), now); err == nil {
			t.Errorf("%q", bad)
		}
	}
}

func TestRelayList(t *testing.T) {
	l, err := ParseRelayList([]byte("# a list\n!badexit 68A4 83E0 5A2A BDCA 6DA5 A3EF 8DB5 1776 38A2 7F80\n!middleonly 192.0.2.0/24\n!reject AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n0011BD2485AD45D984EC4159C88FC066E5E3300E # friend\nnick AAAA83E05A2ABDCA6DA5A3EF8DB5177638A27F80\n"))
	if err != nil {
		t.Fatal(err)
	}
	one, _ := ident.ParseRSAID("68A483E05A2ABDCA6DA5A3EF8DB5177638A27F80")
	two, _ := ident.ParseRSAID("0011BD2485AD45D984EC4159C88FC066E5E3300E")
	three, _ := ident.ParseRSAID("AAAA83E05A2ABDCA6DA5A3EF8DB5177638A27F80")
	var ed ident.Ed25519ID
	for i := range ed {
		ed[i] = byte(i)
	}
	for _, c := range []struct {
		d    netdoc.RouterDesc
		want relayStatus
	}{
		{netdoc.RouterDesc{RSA: one, Addr: netip.MustParseAddr("192.0.2.9")}, statusBadExit | statusMiddleOnly},
		{netdoc.RouterDesc{RSA: two}, statusApproved},
		{netdoc.RouterDesc{RSA: three}, statusApproved},
		{netdoc.RouterDesc{Ed: ed}, statusReject},
		{netdoc.RouterDesc{}, 0},
	} {
		if got := l.status(&c.d); got != c.want {
			t.Errorf("%+v: %b", c.d.RSA, got)
		}
	}
	for _, bad := range []string{"!what 68A483E05A2ABDCA6DA5A3EF8DB5177638A27F80", "!reject nick", "nick", "!reject"} {
		if _, err := ParseRelayList([]byte(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHistory(t *testing.T) {
	var h histories
	id := ident.RSAID{1}
	at := time.Unix(1e9, 0)
	for hour := range 48 { // an hour up, an hour down
		h.note(id, hour%2 == 0, at.Add(time.Duration(hour)*time.Hour))
	}
	r := h.record(id, at.Add(48*time.Hour))
	if r.wfu < 0.45 || r.wfu > 0.55 || r.mtbf < 3500 || r.mtbf > 3700 || r.tk > 48*3600 || r.tk < 40*3600 {
		t.Errorf("%+v", r)
	}
	if r = h.record(ident.RSAID{2}, at); r != (record{}) {
		t.Errorf("%+v", r)
	}
	h.forget(at.AddDate(1, 0, 0))
	if len(h.Of) != 0 {
		t.Error("a relay that is long gone was not forgotten")
	}
}

func TestKeysOnDisk(t *testing.T) {
	identity := keyPool(t, 2048, 1)[0]
	now := time.Now()
	k, err := Certify(rand.Reader, identity, netip.MustParseAddrPort("192.0.2.1:80"), now, 3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := k.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := LoadKeys(dir, rand.Reader, now)
	if err != nil || !got.Signing.Equal(k.Signing) || got.RSA == nil {
		t.Fatal(err)
	}
	again, err := LoadKeys(dir, rand.Reader, now)
	if err != nil || !again.RSA.Equal(got.RSA) || !again.Ed.Equal(got.Ed) {
		t.Errorf("other relay identities: %v", err)
	}
	if _, err := LoadKeys(dir, rand.Reader, now.AddDate(1, 0, 0)); err == nil {
		t.Error("an expired certificate was loaded")
	}
	for _, pass := range []string{"", "secret"} {
		text, err := EncodeIdentity(identity, []byte(pass))
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRSA(text, []byte(pass))
		if err != nil || !back.Equal(identity) {
			t.Errorf("%q: %v", pass, err)
		}
		if _, err := ParseRSA(text, []byte("wrong")); (err == nil) != (pass == "") {
			t.Errorf("%q: %v", pass, err)
		}
		if pass != "" && bytes.Contains(text, []byte("BEGIN PRIVATE")) {
			t.Error("the key is not encrypted")
		}
	}
	if _, err := Certify(rand.Reader, identity, netip.AddrPort{}, now, 0); err == nil {
		t.Error("a certificate for no time")
	}
}

func FuzzBandwidths(f *testing.F) {
	f.Add([]byte(sampleBandwidths))
	f.Fuzz(func(t *testing.T, b []byte) {
		bw, err := ParseBandwidths(b, time.Unix(1700000000, 0))
		if bw == nil || (err == nil && bw.At.IsZero()) || len(bw.Headers) > maxHeadersLine || strings.ContainsAny(bw.Headers, "\n") {
			t.Fatalf("%+v %v", bw, err)
		}
	})
}

func FuzzCommit(f *testing.F) {
	f.Add("1 sha3-256 6BCAFD02209D42DD5CFF999F398C5610F6B6D477 AAAAAGsBo/TQATSWo5QI5x0TCWGC42OlxRlbrCMevNcAsLwG6MWTmQ== AAAAAGsBo/RLDX9G4Lb3rPR/qb5aF9wxAAAAAAAAAAAAAAAAAAAAAA==")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCommit(s)
		if err != nil {
			return
		}
		c.Opens()
		if back, err := ParseCommit(c.String()); err != nil || back != c {
			t.Fatalf("%q: %+v %v", s, back, err)
		}
	})
}

func FuzzRelayList(f *testing.F) {
	f.Add([]byte("!reject 192.0.2.0/24\n0011BD2485AD45D984EC4159C88FC066E5E3300E\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := ParseRelayList(b); (l == nil) == (err == nil) {
			t.Fatal(l, err)
		}
	})
}

func FuzzUpload(f *testing.F) {
	f.Add([]byte("router a\nb\nextra-info c\nd\nrouter e"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, e := splitUpload(b)
		n := 0
		for _, x := range append(d, e...) {
			n += len(x)
		}
		if n > len(b) {
			t.Fatalf("%d bytes of %d", n, len(b))
		}
	})
}
