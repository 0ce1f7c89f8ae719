package netdoc

import (
	"bytes"
	"crypto/sha3"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
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

// diffOf makes a diff with the given commands from one document to another.
func diffOf(t *testing.T, from, to []byte, commands string) []byte {
	t.Helper()
	was, err := SHA3Signed(from)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%s 1\nhash %X %X\n%s", diffStart, was, sha3.Sum256(to), commands)
}

// A diff may have as many commands as can touch different lines, and no more: each one is
// held until the end.
func TestDiffCommandsBound(t *testing.T) {
	from := []byte("a\nb\ndirectory-signature c\n")
	to := []byte("1\n2\n3\n4\n5\n6\n7\n")
	all := "3a\n7\n.\n3c\n6\n.\n2a\n5\n.\n2c\n4\n.\n1a\n3\n.\n1c\n2\n.\n0a\n1\n.\n"
	if got, err := ApplyDiff(from, diffOf(t, from, to, all)); err != nil || !bytes.Equal(got, to) {
		t.Errorf("seven commands for three lines: %q %v", got, err)
	}
	one := append([]byte("0\n"), to...)
	if _, err := ApplyDiff(from, diffOf(t, from, one, all+"0a\n0\n.\n")); !fault.Is(err, fault.Resource) {
		t.Errorf("eight commands for three lines: %v", err)
	}
}

// Neither a diff nor what it makes may be larger than a consensus.
func TestDiffSizeBound(t *testing.T) {
	fill := func(n int) []byte { // lines of n bytes in all
		b := bytes.Repeat([]byte("xxxxxxxxxxxxxxx\n"), n/16+1)[:n]
		b[n-1] = '\n'
		return b
	}
	end := []byte("directory-signature c\n")
	small := append([]byte("a\n"), end...)
	head := len(diffOf(t, small, nil, "0a\n.\n"))
	big := func(n int) []byte { return append(fill(n-len(end)), end...) }
	for _, c := range []struct {
		what       string
		from, text []byte
		ok         bool
	}{
		{"a diff of the most bytes", small, fill(MaxConsensus - head), true},
		{"a diff of one byte more", small, fill(MaxConsensus - head + 1), false},
		{"a result of the most bytes", big(MaxConsensus - 1000), fill(1000), true},
		{"a result of one byte more", big(MaxConsensus - 1000), fill(1001), false},
	} {
		to := append(bytes.Clone(c.text), c.from...)
		diff := diffOf(t, c.from, to, "0a\n"+string(c.text)+".\n")
		got, err := ApplyDiff(c.from, diff)
		if c.ok && (err != nil || !bytes.Equal(got, to)) || !c.ok && !fault.Is(err, fault.Resource) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// A few bytes make no large document: no command copies, moves or repeats lines, and
// every line number is that of a line.
func TestDiffRefused(t *testing.T) {
	from := []byte("a\nb\ndirectory-signature c\n")
	for _, commands := range []string{
		"1t3\n", "1,3t3\n", "1m3\n", "1,2j\n", "1s/a/b/\n", "r x\n", "3a\nx\n", "3a\n.\n", "4a\nx\n.\n", "4d\n", "0d\n", "2,1d\n", "1,4d\n", "1,9999999999d\n",
		"1,2147483647c\nx\n.\n", "2147483647a\nx\n.\n", "1,$c\nx\n.\n", "$a\nx\n.\n", "1,2a\nx\n.\n", "1d\n2d\n", "1,2d\n2c\nx\n.\n", "-1a\nx\n.\n", "a\nx\n.\n", "1\n", "\n", "1dd\n", "1 d\n", ",1d\n", "1,d\n",
	} {
		for _, to := range []string{"", "x\n", string(from), "a\nb\ndirectory-signature c\nx\n", "a\nx\ndirectory-signature c\n"} {
			if got, err := ApplyDiff(from, diffOf(t, from, []byte(to), commands)); err == nil {
				t.Errorf("%q made %q", commands, got)
			}
		}
	}
}
