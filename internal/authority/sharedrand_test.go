package authority

import (
	"crypto/rand"
	"encoding/base64"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// tied are the commitments of three authorities, with their reveals. The second has
// repeated the first one's.
var tied = []string{
	"1 sha3-256 1111111111111111111111111111111111111111 AAAAAGsFf8SCtNiKoNFhH0Hp7bBQroc2bw/iCW7vPG1Om1/Qkp9EyA== AAAAAGsFf8QHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==",
	"1 sha3-256 EEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEE AAAAAGsFf8SCtNiKoNFhH0Hp7bBQroc2bw/iCW7vPG1Om1/Qkp9EyA== AAAAAGsFf8QHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==",
	"1 sha3-256 1909D58F4A1C31D3E1DC343655A6A8BF304E19D3 AAAAAGsFf8Rrfr4SF9zNw0UidxbgrnXGkg6wlQzfurjuKeePt3AUkw== AAAAAGsFf8QJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQ==",
}

// The shared random value of commitments that are alike is the one that C tor 0.4.9.15
// computed from the same state (its file "sr-state", in whose previous value every byte
// is 2).
func TestSharedRandomTie(t *testing.T) {
	const want = "/et2QqKNrAo5zr4AJqi8T7kTR72yQbPdcWDoLkz8vMg="
	for range 64 { // the order of a map is another each time
		s := sharedRandom{Commits: map[string]Commit{}, Previous: &netdoc.SharedRandom{}}
		for i := range s.Previous.Value {
			s.Previous.Value[i] = 2
		}
		var known []ident.RSAID
		for _, l := range tied {
			c, err := ParseCommit(l)
			if err != nil || !c.Opens() {
				t.Fatal(err)
			}
			s.Commits[c.Identity.String()] = c
			known = append(known, c.Identity)
		}
		got := s.compute(known)
		if v := base64.StdEncoding.EncodeToString(got.Value[:]); v != want || got.Reveals != 3 {
			t.Fatalf("%s of %d reveals, not %s", v, got.Reveals, want)
		}
	}
}

// What an authority takes from another's vote: a commitment only in the commit phase and
// only the first one, a reveal only in the reveal phase and only the one of the
// commitment.
func TestSharedRandomReceive(t *testing.T) {
	me, voter := ident.RSAID{1}, ident.RSAID{2}
	run := time.Unix(24*10*1000, 0)
	made := func(at time.Time) Commit {
		c, err := newCommit(rand.Reader, voter, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	closed := func(c Commit) Commit { c.Reveal = ""; return c }
	first, second := made(run), made(run)
	otherNumber, otherTime := first, first
	otherNumber.Reveal = second.Reveal
	b, err := decodeSR(first.Text)
	if err != nil {
		t.Fatal(err)
	}
	b[7]++ // the digest fits, the time does not
	otherTime.Text = base64.StdEncoding.EncodeToString(b)
	stranger := first
	stranger.Identity = ident.RSAID{3}
	for _, c := range []struct {
		what           string
		commit, reveal []Commit // in votes of the two phases
		text, number   string   // what is kept
	}{
		{"honest", []Commit{closed(first)}, []Commit{first}, first.Text, first.Reveal},
		{"two commitments", []Commit{closed(first), closed(second)}, []Commit{second}, first.Text, ""},
		{"a number at once", []Commit{first}, nil, "", ""},
		{"a late commitment", nil, []Commit{closed(first)}, "", ""},
		{"a late commitment with its number", nil, []Commit{first}, "", ""},
		{"another number", []Commit{closed(first)}, []Commit{otherNumber}, first.Text, ""},
		{"another time", []Commit{closed(otherTime)}, []Commit{otherTime}, otherTime.Text, ""},
		{"another's line", []Commit{closed(stranger)}, []Commit{stranger}, "", ""},
		{"a second number", []Commit{closed(first)}, []Commit{first, otherNumber}, first.Text, first.Reveal},
	} {
		var s sharedRandom
		step := func(round int, list []Commit) {
			at := run.Add(time.Duration(round) * 10 * time.Second)
			if err := s.update(rand.Reader, me, []ident.RSAID{me, voter}, at, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			for _, x := range list {
				s.receive(voter, []string{x.String()})
			}
		}
		step(0, c.commit)
		step(srRounds, c.reveal)
		if got := s.Commits[voter.String()]; got.Text != c.text || got.Reveal != c.number {
			t.Errorf("%s: kept %+v", c.what, got)
		}
		if _, ok := s.Commits[stranger.Identity.String()]; ok {
			t.Errorf("%s: a commitment of an authority that did not vote", c.what)
		}
	}
}
