package authority

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdoc"
)

// get asks an authority for a path and returns the parts of the answer.
func get(t testing.TB, a *Authority, path string) []*dirserver.Doc {
	t.Helper()
	res := a.extra(t.Context(), dirserver.Peer{}, &dirserver.Request{Method: "GET", Path: path})
	if res == nil || (res.Status == http.StatusOK) != (len(res.Parts) > 0) {
		t.Fatalf("%.60s: %+v", path, res)
	}
	return res.Parts
}

// TestVoteNamedOften: an answer has a vote only once, even if the request names
// it many times, and no copy is made.
func TestVoteNamedOften(t *testing.T) {
	identities, signings := keyPool(t, 2048, 2), keyPool(t, 2048, 2)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, 2, identities, signings, nil)
		a := all[0]
		r := a.startRound()
		time.Sleep(time.Until(r.vote))
		var votes []*netdoc.Vote
		for _, x := range all {
			v, err := x.makeVote(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.addVote(v, true); err != nil {
				t.Fatal(err)
			}
			votes = append(votes, v)
		}
		id, digest := a.me.String(), strings.ToUpper(fmt.Sprintf("%x", votes[0].Digest))
		for _, path := range []string{"next/authority", "next/" + id, "next/" + strings.Repeat(id+"+", 1200) + id, "next/d/" + strings.Repeat(strings.ToLower(digest)+"+"+digest+"+", 600)} {
			got := get(t, a, "/tor/status-vote/"+path)
			if len(got) != 1 || &got[0].Bytes()[0] != &a.round.votes[a.me].Text[0] {
				t.Errorf("%.60s: %d votes", path, len(got))
			}
		}
		if got := get(t, a, "/tor/status-vote/next/"+id+"+"+all[1].me.String()); len(got) != 2 {
			t.Errorf("%d of two votes", len(got))
		}
		if got := get(t, a, "/tor/status-vote/next/"+strings.Repeat("00", 20)); len(got) != 0 {
			t.Errorf("%d votes of unknown authorities", len(got))
		}
		// While signatures come, a consensus is encoded once, and again after
		// each new signature.
		if _, err := a.compute(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"consensus", "consensus-microdesc", "consensus-signatures"} {
			first := get(t, a, "/tor/status-vote/next/"+path)
			if again := get(t, a, "/tor/status-vote/next/"+path); len(first) != 1 || again[0] != first[0] {
				t.Errorf("%s is encoded for each request", path)
			}
			other := all[1]
			other.startRound()
			for _, v := range votes {
				if err := other.addVote(v, true); err != nil {
					t.Fatal(err)
				}
			}
			if path != "consensus" {
				continue
			}
			own, err := other.compute()
			if err != nil {
				t.Fatal(err)
			}
			d, err := netdoc.ParseDetachedSignatures(own)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := a.addSignatures(d, netip.Addr{}); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			if again := get(t, a, "/tor/status-vote/next/"+path); bytes.Count(again[0].Bytes(), []byte("directory-signature ")) != 2 {
				t.Error("the new signature is not there")
			}
		}
	})
}

// votesOf begins a round, and returns the vote of each authority when it is time to vote.
func votesOf(t *testing.T, all []*Authority) (votes []*netdoc.Vote) {
	t.Helper()
	var when timing
	for _, a := range all {
		when = a.startRound()
	}
	time.Sleep(time.Until(when.vote))
	for _, a := range all {
		v, err := a.makeVote(when)
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, v)
	}
	return votes
}

// TestEarlySignatures: strangers cannot push out the authorities' signatures by
// posting others before the consensus is computed.
func TestEarlySignatures(t *testing.T) {
	const n = 3
	identities, signings, strangers := keyPool(t, 2048, n), keyPool(t, 2048, n), keyPool(t, 2048, 2)
	synctest.Test(t, func(t *testing.T) {
		all, _ := inMemory(t, n, identities, signings, nil)
		votes := votesOf(t, all)
		documents := make([]*netdoc.DetachedSignatures, n)
		for i, a := range all {
			for _, v := range votes {
				if err := a.addVote(v, true); err != nil {
					t.Fatal(err)
				}
			}
			if i == 0 {
				continue // it is the slow one
			}
			own, err := a.compute()
			if err != nil {
				t.Fatal(err)
			}
			if documents[i], err = netdoc.ParseDetachedSignatures(own); err != nil {
				t.Fatal(err)
			}
		}
		a := all[0]
		post := func(from netip.Addr, d *netdoc.DetachedSignatures) int {
			r := a.extra(t.Context(), dirserver.Peer{Addr: from}, &dirserver.Request{Method: "POST", Path: "/tor/post/consensus-signature", Body: d.Append(nil)})
			return r.Status
		}
		stranger := netip.MustParseAddr("192.0.2.66")
		// Signatures by unknown keys, and in an authority's name without its key.
		for i := range 100 {
			d := *documents[1]
			d.SHA1[0]++
			d.Signatures = slices.Clone(d.Signatures)
			for j := range d.Signatures {
				if i%2 == 0 {
					d.Signatures[j].Identity, d.Signatures[j].Signing = netdoc.RSADigest(&strangers[0].PublicKey), netdoc.RSADigest(&strangers[1].PublicKey)
				} else {
					d.Signatures[j].Sig = bytes.Repeat([]byte{byte(i)}, 256)
				}
			}
			if got := post(stranger, &d); got != 400 {
				t.Fatalf("post %d is answered %d", i, got)
			}
		}
		// Earlier signatures of the authorities, sent as if they were for this
		// round.
		for i := 1; i < n; i++ {
			for k := range 100 {
				c := &netdoc.Consensus{}
				c.Lifetime = documents[i].Lifetime
				c.Params = netdoc.Params{{Name: "n", Value: int32(k)}}
				c.AppendUnsigned(nil)
				if err := c.Sign(a.cfg.Rand, all[i].me, signings[i]); err != nil {
					t.Fatal(err)
				}
				if got := post(stranger, netdoc.Detach(c)); (got == 200) != (k < maxEarly) {
					t.Fatalf("replay %d is answered %d", k, got)
				}
			}
		}
		held := len(a.round.early.all())
		if held > 2*maxEarly {
			t.Errorf("%d signatures are kept", held)
		}
		for i := 1; i < n; i++ {
			for range 3 {
				if got := post(all[i].cfg.DirPort.Addr(), documents[i]); got != 200 {
					t.Errorf("authority %d is answered %d", i, got)
				}
			}
		}
		if more := len(a.round.early.all()) - held; more != 2*(n-1) {
			t.Errorf("%d signatures of authorities are kept", more)
		}
		if _, err := a.compute(); err != nil {
			t.Fatal(err)
		}
		for _, c := range a.round.pending {
			if len(c.Signatures) != n {
				t.Errorf("%v: %d signatures", c.Flavor, len(c.Signatures))
			}
		}
	})
}

// TestUploadIsChecked: the cost of a POST is bounded before any signature is
// checked.
func TestUploadIsChecked(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	all, _ := inMemory(t, 1, identities, signings, nil)
	a := all[0]
	r := newTestRelay(t, 0, keyPool(t, 1024, 1)[0], keyPool(t, 1024, 1)[0])
	d := r.sign(t)
	if status, words := a.upload(netip.Addr{}, bytes.Repeat(d.Text, maxDocsUpload+1)); status != 400 || !strings.Contains(words, "Too many") {
		t.Error(status, words)
	}
	if status, words := a.upload(netip.Addr{}, bytes.Repeat(d.Text, maxDocsUpload)); status != 200 {
		t.Error(status, words)
	}
	i := bytes.LastIndex(d.Text, []byte("-----BEGIN SIGNATURE-----\n")) + 30
	forged := bytes.Clone(d.Text)
	if forged[i] = 'A'; d.Text[i] == 'A' {
		forged[i] = 'B'
	}
	judged := false
	if _, err := netdoc.JudgeRouterDesc(forged, time.Now(), func(said *netdoc.RouterDesc) error {
		judged = said.RSA == d.RSA && said.Ed == d.Ed && said.Addr == d.Addr && said.Digest == d.Digest
		return errKnown
	}); err == nil || !strings.Contains(err.Error(), errKnown.Error()) || !judged {
		t.Errorf("a signature is checked before what the descriptor says: %v", err)
	}
}

// TestGrumble: garbage that is posted again and again does not fill the log.
func TestGrumble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		g := newGrumble(slog.New(slog.NewTextHandler(&log, nil)), time.Now)
		for range 1000 {
			g.say(slog.LevelWarn, "posted vote refused", errUnknownAuthority)
		}
		if n := strings.Count(log.String(), "\n"); n != grumbles {
			t.Errorf("%d lines", n)
		}
		log.clear()
		time.Sleep(3 * grumbleEvery)
		for range 1000 {
			g.say(slog.LevelWarn, "posted vote refused", errUnknownAuthority)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines later", n)
		}
	})
}

// TestLinkCount: the links of one address and of all strangers are bounded, and
// authorities can always connect.
func TestLinkCount(t *testing.T) {
	var c linkCount
	fill := func(from string, authority bool) (n int, leave func()) {
		for {
			l, ok := c.enter(netip.MustParseAddr(from), authority, false)
			if !ok {
				return n, leave
			}
			leave = l
			n++
		}
	}
	n, leave := fill("2001:db8::1", false)
	if m, _ := fill("2001:db8::2", false); n != maxLinksEach || m != 0 {
		t.Errorf("%d and %d links of one /64", n, m)
	}
	leave()
	leave() // counts once
	if m, _ := fill("2001:db8::2", false); m != 1 {
		t.Errorf("%d links where one has gone", m)
	}
	for i := range 200 {
		m, _ := fill(fmt.Sprintf("192.0.2.%d", i), false)
		n += m
	}
	if n != maxStrangerLinks {
		t.Errorf("strangers have %d links", n)
	}
	listed := 0
	for ; ; listed++ {
		if _, ok := c.enter(netip.AddrFrom4([4]byte{203, 0, byte(listed >> 8), byte(listed)}), false, true); !ok {
			break
		}
	}
	if listed != maxOtherLinks-maxStrangerLinks {
		t.Errorf("listed relays have %d links", listed)
	}
	if n, _ := fill("198.51.100.1", true); n != maxLinks-maxOtherLinks {
		t.Errorf("an authority has %d links", n)
	}
}
