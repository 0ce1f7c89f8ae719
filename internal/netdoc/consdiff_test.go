package netdoc

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMakeDiff(t *testing.T) {
	for _, f := range [][2]string{
		{"ctor/consensus-microdesc-old", "ctor/consensus-microdesc"},
		{"ctor/consensus-microdesc", "ctor/consensus-microdesc-old"},
		{"ctor/consensus-microdesc", "ctor/consensus-microdesc"},
		{"ctor15/consensus-microdesc-old", "ctor15/consensus-microdesc"},
		{"ctor15/consensus-ns", "ctor15/consensus-ns-old"},
		{"ctor/consensus-microdesc", "ctor15/consensus-microdesc"},
		{"ctor/consensus-microdesc", "arti/chutney/cached-microdesc-consensus"},
		{"arti/chutney/cached-consensus", "ctor/consensus-ns"},
	} {
		checkDiff(t, read(t, f[0]), read(t, f[1]))
	}
	theirs, ours := read(t, "ctor/diff"), checkDiff(t, read(t, "ctor/consensus-microdesc-old"), read(t, "ctor/consensus-microdesc"))
	if len(ours) > len(theirs)*11/10 {
		t.Errorf("%d bytes; C tor's diff has %d", len(ours), len(theirs))
	}
}

func checkDiff(t *testing.T, from, to []byte) []byte {
	t.Helper()
	diff, err := MakeDiff(from, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ApplyDiff(from, diff)
	if err != nil || !bytes.Equal(got, to) {
		t.Fatalf("%v\n%s", err, diff)
	}
	return diff
}

// Relays come, go and change at random.
func TestMakeDiffProperty(t *testing.T) {
	c, err := ParseConsensus(read(t, "ctor/consensus-microdesc"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	variant := func() []byte {
		v := *c
		v.Routers = nil
		for _, r := range c.Routers {
			if rng.IntN(4) == 0 {
				continue
			}
			if rng.IntN(3) == 0 {
				r.Bandwidth = rng.Uint32N(100)
			}
			if rng.IntN(5) == 0 {
				r.Version = ""
			}
			v.Routers = append(v.Routers, r)
		}
		v.Signatures = v.Signatures[:1+rng.IntN(len(v.Signatures))]
		return v.Append(nil)
	}
	for range 300 {
		checkDiff(t, variant(), variant())
	}
}

// TestDiffOfManyCommands: a diff that adds after the same line again and again
// is no diff that anybody makes.
func TestDiffOfManyCommands(t *testing.T) {
	from := read(t, "ctor/consensus-microdesc-old")
	head, _, _ := bytes.Cut(read(t, "ctor/diff"), []byte("\n1"))
	lines := bytes.SplitN(head, []byte("\n"), 3)
	diff := append(bytes.Join(lines[:2], []byte("\n")), '\n')
	diff = append(diff, bytes.Repeat([]byte("3a\nx\n.\n"), 1<<17)...)
	if _, err := ApplyDiff(from, diff); err == nil || !strings.Contains(err.Error(), "commands") {
		t.Error(err)
	}
}
