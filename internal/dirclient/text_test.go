package dirclient

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestTexts: the consensus and microdescriptors are read as they came.
func TestTexts(t *testing.T) {
	n := small(t, 5)
	synctest.Test(t, func(t *testing.T) { testTexts(t, n) })
}

func testTexts(t *testing.T, n *dirgen.Net) {
	c := New(Config{Network: n.Network})
	if _, err := c.ConsensusText(); err == nil {
		t.Error("a consensus without a directory")
	}
	c = New(Config{Network: n.Network, Dir: t.TempDir(), Dialer: newWorld(n)})
	if _, err := c.ConsensusText(); err == nil {
		t.Error("a consensus before one came")
	}
	defer run(t, c)()
	wait(t, c)
	lines, err := c.ConsensusText()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(lines)
	if all[0] != "network-status-version 3 microdesc" || !slices.Contains(all, "directory-footer") {
		t.Errorf("%d lines, the first %q", len(all), all[0])
	}
	for range lines { // who stops early leaves no file open
		break
	}
	want := map[[32]byte]bool{}
	for r := range c.Directory().All() {
		want[r.MicrodescDigest()] = true
	}
	text := strings.Join(slices.Collect(c.MicrodescText(want)), "\n") + "\n"
	if got := strings.Count(text, "onion-key\n") - strings.Count(text, "ntor-onion-key"); strings.Count("\n"+text, "\nonion-key\n") != c.Directory().Len() {
		t.Errorf("%d microdescriptors of %d", got, c.Directory().Len())
	}
	one := c.Directory().Relay(2).MicrodescDigest()
	text = strings.Join(slices.Collect(c.MicrodescText(map[[32]byte]bool{one: true})), "\n") + "\n"
	if sha256.Sum256([]byte(text)) != one {
		t.Errorf("another text: %q", text)
	}
	for range c.MicrodescText(want) {
		break
	}
	if got := slices.Collect(c.MicrodescText(map[[32]byte]bool{{1}: true})); len(got) != 0 {
		t.Errorf("what nobody has: %q", got)
	}
}
