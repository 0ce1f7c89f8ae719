package authority

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newest is a network of tor 0.4.9.15, most of whose relays publish no TAP keys.
const newest = "../../netdoc/testdata/ctor15"

func readVotes(t testing.TB, dir string) []*netdoc.Vote {
	t.Helper()
	var votes []*netdoc.Vote
	file := dir + "/v3-status-votes"
	if dir == newest {
		file = dir + "/votes"
	}
	netdoc.CheckVotes(readFile(t, file), 9, nil, func(v *netdoc.Vote, err error) {
		if err == nil {
			v, err = netdoc.ParseVote(v.Text) // with its relays
		}
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, v)
	})
	return votes
}

// computeOne computes one flavor.
func computeOne(votes []*netdoc.Vote, f netdoc.Flavor, rules Rules) (*netdoc.Consensus, error) {
	ns, micro, err := Compute(votes, rules)
	if f == netdoc.FlavorMicrodesc {
		return micro, err
	}
	return ns, err
}

// unsigned cuts the signatures off.
func unsigned(b []byte) []byte {
	return b[:bytes.Index(b, []byte("\ndirectory-signature "))+1]
}

// C tor's authorities computed these consensuses from these votes.
func TestComputeAsCTor(t *testing.T) {
	for dir, n := range map[string]int{"one": 1, "three": 3, "five": 5, "method32": 4, "method33": 4, "method34": 4, newest: 3} {
		votes := readVotes(t, dir)
		if len(votes) != n {
			t.Fatalf("%s: %d votes", dir, len(votes))
		}
		for f, file := range map[netdoc.Flavor]string{netdoc.FlavorNS: "cached-consensus", netdoc.FlavorMicrodesc: "cached-microdesc-consensus"} {
			c, err := computeOne(votes, f, Rules{Authorities: n})
			if err != nil {
				t.Errorf("%s %v: %v", dir, f, err)
				continue
			}
			if dir == newest {
				file = "consensus-" + f.String()
			}
			got, want := c.AppendUnsigned(nil), unsigned(readFile(t, dir+"/"+file))
			if !bytes.Equal(got, want) {
				a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
				for i := range min(len(a), len(b)) {
					if a[i] != b[i] {
						t.Errorf("%s %v: line %d:\n%s\n%s", dir, f, i+1, a[i], b[i])
						break
					}
				}
			}
			slices.Reverse(votes)
			again, err := computeOne(votes, f, Rules{Authorities: n})
			if err != nil || !bytes.Equal(again.AppendUnsigned(nil), got) {
				t.Errorf("%s %v: the order of votes matters (%v)", dir, f, err)
			}
		}
	}
}

// Relays choose these texts. C tor's authorities write them as they are, and also an
// empty list of protocols; its clients refuse a consensus without the line.
func TestComputeCopies(t *testing.T) {
	votes := readVotes(t, "three")
	for _, v := range votes {
		v.Routers[0].Version, v.Routers[0].Proto = "Tor ", ""
		v.Routers[1].Proto = "Link=4-5 "
	}
	c, err := computeOne(votes, netdoc.FlavorMicrodesc, Rules{Authorities: 3})
	if err != nil {
		t.Fatal(err)
	}
	text := string(c.AppendUnsigned(nil))
	for _, want := range []string{"\nv Tor \npr \nw ", "\npr Link=4-5 \nw "} {
		if !strings.Contains(text, want) {
			t.Errorf("the consensus lacks %q", want)
		}
	}
}

func TestComputeRefuses(t *testing.T) {
	votes := readVotes(t, "three")
	if _, err := computeOne(votes[:1], netdoc.FlavorNS, Rules{Authorities: 3}); err == nil {
		t.Error("one vote of three was a majority")
	}
	if _, err := computeOne(votes, netdoc.FlavorNS, Rules{Authorities: 2}); err == nil {
		t.Error("more votes than authorities")
	}
}

// An authority that does not support the method that the votes choose uses the newest that
// its configuration supports.
func TestMethodFallback(t *testing.T) {
	for _, c := range []struct {
		voted, supported []int
		want             int
	}{
		{Methods, nil, 37},
		{[]int{35, 36}, nil, 36},
		{[]int{31, 38}, nil, 37},           // chosen: 38
		{[]int{31}, nil, 37},               // chosen: 31
		{Methods, Methods048(), 35},        // chosen: 37
		{[]int{31}, Methods048(), 35},      // not 37, of which this configuration makes no votes
		{[]int{34}, []int{33, 32}, 33},     // in whatever order
		{[]int{32, 33}, []int{33, 34}, 33}, // shared
	} {
		votes := readVotes(t, "three")
		for _, v := range votes {
			v.Methods = c.voted
		}
		got, err := computeOne(votes, netdoc.FlavorNS, Rules{Authorities: 3, Methods: c.supported})
		if err != nil || got.Method != c.want {
			t.Errorf("%v, supported %v: %v, not %d (%v)", c.voted, c.supported, got.Method, c.want, err)
		}
	}
	if got := Methods048(); !slices.Equal(got, []int{32, 33, 34, 35}) {
		t.Error(got)
	}
}

func TestChooseMethod(t *testing.T) {
	for _, c := range []struct {
		votes [][]int
		want  int
	}{
		{[][]int{{34, 35}}, 35},
		{[][]int{Methods, Methods, Methods048()}, 35},
		{[][]int{Methods, Methods, Methods, Methods048()}, 37},
		{[][]int{{34, 35}, {34, 35}, {33, 34}}, 34}, // two of three are not more than two thirds
		{[][]int{{34, 35}, {34, 35}, {34, 35}, {34}}, 35},
		{[][]int{{34, 34, 34}, {33}}, 1},
	} {
		var votes []*netdoc.Vote
		for _, m := range c.votes {
			votes = append(votes, &netdoc.Vote{Methods: m})
		}
		if got := chooseMethod(votes); got != c.want {
			t.Errorf("%v: %d, not %d", c.votes, got, c.want)
		}
	}
}

// The line of a package is the one that a majority of the votes about it has, if
// three or more votes name it.
func TestPackages(t *testing.T) {
	const url = " http://example.com/a "
	say := func(lines ...string) *netdoc.Vote { return &netdoc.Vote{Packages: lines} }
	c := &computation{votes: []*netdoc.Vote{
		say("tor 1"+url+"sha256=a", "tor 2"+url+"sha256=b", "few 1"+url+"sha256=c", "torn 1"+url+"sha256=d", "bad 1 sha256=d"),
		say("tor 1"+url+"sha256=x", "tor 1"+url+"sha256=a", "tor 2"+url+"sha256=c", "few 1"+url+"sha256=c", "torn 1"+url+"sha256=d", "bad 1 sha256=d"),
		say("tor 1"+url+"sha256=a", "tor 2"+url+"sha256=d", "torn 1"+url+"sha256=d", "bad 1 sha256=d", "bad 2"+url+"sha256=d=e"),
	}}
	want := []string{"tor 1" + url + "sha256=a", "torn 1" + url + "sha256=d"}
	if got := c.packages(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestVersionOrder(t *testing.T) {
	in := []string{"0.1.2pre3", "0.1.2rc1", "0.1.2", "0.1.2.1-alpha", "0.1.2.1-alpha-dev", "Tor 0.1.2.1-beta", "0.4.9.2", "0.4.9.11 (git-ab)", "0.4.9.11 (git-ac)", "Chive 1", "junk"}
	for i := range in {
		for j := range in {
			got := compareVersions(in[i], in[j])
			if (i < j && got >= 0) || (i > j && got <= 0) || (i == j && got != 0) {
				t.Errorf("%q, %q: %d", in[i], in[j], got)
			}
		}
	}
}

// A majority decides on a relay's identities; what only one authority says is
// left out.
func TestCollate(t *testing.T) {
	rs := func(rsa, ed byte, listed bool) netdoc.RouterStatus {
		return netdoc.RouterStatus{RSA: [20]byte{rsa}, Ed: [32]byte{ed}, EdListed: listed}
	}
	votes := []*netdoc.Vote{
		{Routers: []netdoc.RouterStatus{rs(1, 1, true), rs(2, 2, true), rs(3, 3, true)}},
		{Routers: []netdoc.RouterStatus{rs(1, 1, true), rs(2, 9, true), rs(4, 4, true)}},
		{Routers: []netdoc.RouterStatus{rs(1, 7, true), rs(2, 0, false)}},
	}
	var got [][]opinion
	if err := collate(votes, 3, func(list []opinion) { got = append(got, slices.Clone(list)) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0]) != 2 || len(got[1]) != 3 {
		t.Fatalf("%v", got)
	}
	if !got[0][0].reflects || !got[0][1].reflects || got[1][0].reflects {
		t.Errorf("%v", got)
	}
}
