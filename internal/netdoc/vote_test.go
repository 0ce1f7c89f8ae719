package netdoc

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

func TestRealVotes(t *testing.T) {
	for _, f := range []struct {
		votes string
		n     int
	}{{"ctor/votes", 3}, {"ctor15/votes", 3}, {"arti/chutney/v3-status-votes", 4}} {
		votes := parsedVotes(t, read(t, f.votes))
		for _, v := range votes {
			if len(v.Routers) < 7 || v.Cert.Identity != v.Source.Identity || len(v.Routers[0].Microdescs) == 0 || v.Routers[0].Ed.IsZero() {
				t.Errorf("%+v", v.Source)
			}
		}
		if len(votes) != f.n {
			t.Errorf("%s: %d votes", f.votes, len(votes))
		}
	}
}

// What C tor 0.4.9 wrote, Chive writes byte for byte, up to the signature.
func TestVoteRoundTrip(t *testing.T) {
	for _, v := range parsedVotes(t, slices.Concat(read(t, "ctor/votes"), read(t, "ctor15/votes"))) {
		got := v.appendPreamble(nil)
		got = append(got, v.Cert.Text...)
		for i := range v.Routers {
			got = v.Routers[i].append(got, FlavorNS, true)
		}
		// This says why C tor votes on no measurement; nobody reads it, and Chive does not write it.
		text := bytes.ReplaceAll(v.Text, []byte(" MeasuredButAuthority=10000\n"), []byte("\n"))
		if !bytes.HasPrefix(text, got) || !bytes.HasPrefix(text[len(got):], []byte("directory-footer\ndirectory-signature ")) {
			diffAt(t, v.Source.Nickname, got, text)
		}
	}
}

func TestVoteSign(t *testing.T) {
	identity, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	crt, err := MakeAuthCert(rand.Reader, identity, signing, netip.MustParseAddrPort("192.0.2.1:80"), ctorTime, ctorTime.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	mine := parsedVotes(t, read(t, "ctor/votes"))[2]
	mine.Cert, mine.Source.Identity = crt, crt.Identity
	if mine, err = mine.Sign(rand.Reader, signing); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Sign(rand.Reader, identity); err == nil {
		t.Error("a signature by another key than the certificate's was accepted")
	}
	for i := 0; i < len(mine.Text); i += 41 {
		bad := bytes.Clone(mine.Text)
		bad[i] ^= 1
		if v, err := ParseVote(bad); err == nil && v.Digest != mine.Digest {
			t.Errorf("offset %d: a changed vote was accepted", i)
		}
		if _, err := ParseVote(mine.Text[:i]); err == nil {
			t.Errorf("truncated to %d", i)
		}
	}
	if mine.ValidUntil.Sub(mine.ValidAfter) != time.Minute {
		t.Error(mine.Lifetime)
	}
}

// TestVoteIsCheckedFirst: before a vote's relays are read, its authority must be
// known and its signature good; and no line before them is read that is too
// long.
func TestVoteIsCheckedFirst(t *testing.T) {
	doc := splitDocs(read(t, "ctor/votes"), "network-status-version")[0]
	i := bytes.Index(doc, []byte("\nr ")) + 1
	broken := append(bytes.Clone(doc[:i]), append([]byte("r what is this\n"), doc[i:]...)...)
	if _, err := ParseVote(broken); err == nil || !strings.Contains(err.Error(), "signature") {
		t.Errorf("relays are read before the signature: %v", err)
	}
	unknown := errors.New("nobody knows it")
	CheckVotes(broken, 9, func(ident.RSAID) error { return unknown }, func(_ *Vote, err error) {
		if !errors.Is(err, unknown) {
			t.Errorf("a stranger's vote is read: %v", err)
		}
	})
	n := 0
	CheckVotes(bytes.Repeat(doc, 5), 2, nil, func(v *Vote, err error) {
		if n++; (err == nil) != (n <= 2) {
			t.Errorf("vote %d of 2: %v", n, err)
		}
	})
	if n != 3 {
		t.Errorf("%d calls", n)
	}
	long := []byte("known-flags" + strings.Repeat(" a", maxPreamble/2) + "\n")
	_, line, _ := bytes.Cut(doc, []byte("\nknown-flags"))
	for what, doc := range map[string][]byte{
		"vote":      bytes.Replace(doc, append([]byte("known-flags"), line[:bytes.IndexByte(line, '\n')+1]...), long, 1),
		"consensus": bytes.Replace(read(t, "ctor/consensus-ns"), []byte("known-flags"), append(long, "x-known-flags"...), 1),
	} {
		err := error(nil)
		if what == "vote" {
			_, err = ParseVote(doc)
		} else {
			_, err = ParseConsensus(doc, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), "before the relays") {
			t.Errorf("%s: a line of %d bytes: %v", what, len(long), err)
		}
	}
}

func FuzzVote(f *testing.F) {
	f.Add(splitDocs(read(f, "ctor/votes"), "network-status-version")[0])
	f.Fuzz(func(t *testing.T, doc []byte) {
		if v, err := ParseVote(doc); (v == nil) == (err == nil) {
			t.Fatal(v, err)
		}
	})
}

// parsedVotes reads a concatenation of votes, with their relays.
func parsedVotes(t testing.TB, b []byte) (votes []*Vote) {
	t.Helper()
	for _, one := range splitDocs(b, "network-status-version") {
		v, err := ParseVote(trimAnnotation(one))
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, v)
	}
	return votes
}
