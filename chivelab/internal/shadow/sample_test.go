package shadow

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/madenet"
	"github.com/chivenet/chive/internal/netdoc"
)

func TestMedians(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []uint32
	}{{0, nil}, {1, []uint32{5}}, {3, []uint32{2, 5, 8}}, {9, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}} {
		if got := medians([]uint32{9, 8, 7, 6, 5, 4, 3, 2, 1}, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%d pieces: %v", c.n, got)
		}
	}
}

// TestSample: an experiment has a share of each class of a consensus, in both flavors, and each relay's link carries its weight.
func TestSample(t *testing.T) {
	net, err := madenet.New(t.Context(), madenet.Options{Relays: 80, Authorities: 1, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for _, flavor := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		doc, err := net.Consensus(flavor, 0)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "consensus")
		if err := os.WriteFile(name, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Sample{Consensus: name, Share: .25, Seed: 1}
		classes, err := s.classes(doc)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		f := parse(t, string(text))
		want := 4 // the client and the authorities
		for _, c := range classes {
			if n := len(c.weights); n > 0 {
				want += max(1, (n+2)/4)
			}
		}
		if len(f.Nodes) != want {
			t.Errorf("%d nodes, not %d", len(f.Nodes), want)
		}
		_, body, _ := bytes.Cut(text, []byte("title"))
		texts = append(texts, body)

		// Each class is whole with a share of 1.
		s.Share = 1
		if text, err = s.Text(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "\nrole = \"relay\"") + strings.Count(string(text), "\nrole = \"exit\""); got != 80 {
			t.Errorf("all of 80 relays are %d", got)
		}
		// A consensus of an archive has a line before it, and mistakes have their line in the file.
		lines := bytes.SplitAfter(doc, []byte("\n"))
		at := slices.IndexFunc(lines, func(l []byte) bool { return bytes.HasPrefix(l, []byte("w ")) })
		lines[at] = []byte("w Bandwidth=much\n")
		bad := append([]byte("@type network-status-consensus-3 1.0\n"), bytes.Join(lines, nil)...)
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		where := name + ":" + strconv.Itoa(at+2) + ": "
		if _, err := s.Text(); err == nil || !strings.HasPrefix(err.Error(), where) {
			t.Errorf("%v instead of %s", err, where)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("the flavors give different samples")
	}
}

func TestSampleRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("not a consensus\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Sample{
		"--share: 0 ":   {Consensus: empty},
		"--share: 1.5 ": {Consensus: empty, Share: 1.5},
		empty + ":1: ":  {Consensus: empty, Share: 1},
		"no such file":  {Consensus: "missing", Share: 1},
	} {
		if _, err := s.Text(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
}
