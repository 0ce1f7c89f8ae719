package netdoc

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"net/netip"
	"testing"
	"time"
)

func TestRealVotes(t *testing.T) {
	for _, f := range []struct {
		votes string
		n     int
	}{{"ctor/votes", 3}, {"arti/chutney/v3-status-votes", 4}} {
		n := 0
		ParseVotes(read(t, f.votes), func(v *Vote, err error) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if len(v.Routers) < 7 || v.Cert.Identity != v.Source.Identity || len(v.Routers[0].Microdescs) == 0 || v.Routers[0].Ed.IsZero() {
				t.Errorf("%+v", v.Source)
			}
		})
		if n != f.n {
			t.Errorf("%s: %d votes", f.votes, n)
		}
	}
}

// What C tor 0.4.9 wrote, Chive writes byte for byte, up to the signature.
func TestVoteRoundTrip(t *testing.T) {
	ParseVotes(read(t, "ctor/votes"), func(v *Vote, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got := v.appendPreamble(nil)
		got = append(got, v.Cert.Text...)
		for i := range v.Routers {
			got = v.Routers[i].append(got, FlavorNS, true)
		}
		if !bytes.HasPrefix(v.Text, got) || !bytes.HasPrefix(v.Text[len(got):], []byte("directory-footer\ndirectory-signature ")) {
			diffAt(t, v.Source.Nickname, got, v.Text)
		}
	})
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
	var mine *Vote
	ParseVotes(read(t, "ctor/votes"), func(v *Vote, err error) { mine = v })
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

func FuzzVote(f *testing.F) {
	f.Add(splitDocs(read(f, "ctor/votes"), "network-status-version")[0])
	f.Fuzz(func(t *testing.T, doc []byte) {
		if v, err := ParseVote(doc); (v == nil) == (err == nil) {
			t.Fatal(v, err)
		}
	})
}
