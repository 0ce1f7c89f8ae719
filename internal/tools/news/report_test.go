package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/protover"
)

// TestItemNews: an item is known if the rows of its release have all of its numbers. Items
// without a number are known if there are as many such rows.
func TestItemNews(t *testing.T) {
	all, _ := changelog(small15)
	for page, want := range map[string]int{
		"": 3,
		"| 0.4.9.14 | 41457, 41458, 41459, 41411, TROVE-2026-001 | x |":                             3,
		"| 0.4.9.15 | 41457, 41458, TROVE-2026-001 | x |":                                           3,
		"| 0.4.9.15 | 41457, 41458, 41459, TROVE-2026-001 | x |":                                    2,
		"| 0.4.9.15 | 41457, 41458, 41459 TROVE-2026-001 | x |\n| 0.4.9.15 | 41411 | in 41000 |":    1,
		"| 0.4.9.15 | 41457, 41458, 41459 TROVE-2026-001, 41411 | x |\n| 0.4.9.15 | - | fallback |": 0,
		"| Arti 2.7.0 | 41457 | x |\n| release | tickets | what |\n|---|---|---|":                   3,
	} {
		if got := itemNews(all, rowsOf(page)); len(got) != want {
			t.Errorf("%q: %d: %q", page, len(got), got)
		}
	}
	if got := itemNews(all, rowsOf(""))[0]; !strings.HasPrefix(got, "0.4.9.15 (2026-10-28), 41457, 41458, 41459, TROVE-2026-001: Major bugfixes (one, two, TROVE-2026-001): Stop what") {
		t.Error(got)
	}
}

func TestProtocolNews(t *testing.T) {
	const old = "Cons=1-2 Desc=1-2 Link=1-4 Microdesc=1-2 Relay=1-2"
	own := "Conflux=1 Cons=1-2 Desc=1-4 Link=3-5 Microdesc=1-3 Relay=2-6"
	got, err := protocolNews([]string{"Link=%s Microdesc=", old, own, "Cons=2 Desc=2 Link=4 Microdesc=2 Relay=2-63"})
	if err != nil || !slices.Contains(got, "C tor's authorities vote for a list that Chive's do not have: Cons=2 Desc=2 Link=4 Microdesc=2 Relay=2-63") {
		t.Errorf("%q %v", got, err)
	}
	if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "no role") || strings.Contains(s, "Link=1") }) {
		t.Errorf("a version that is known, or of old relays: %q", got)
	}
	got, err = protocolNews([]string{own + " NewProto=1", "Cons=2 Link=4 Microdesc=2"})
	if err != nil || !slices.Contains(got, "no role of Chive has NewProto=1") {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range [][]string{{own}, {"Cons=2 Link=4 Microdesc=2"}, {own, own, "Cons=2 Link=4 Microdesc=2"}} {
		if got, err := protocolNews(bad); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func TestVoteNews(t *testing.T) {
	set := func(s string) protover.Set {
		p, err := protover.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ours := []protover.Set{set("Link=4-5"), set("Link=4"), set("Link=4")}
	if got := voteNews([]protover.Set{set("Link=4"), set("Link=4,5")}, ours); len(got) != 0 {
		t.Errorf("%q", got)
	}
	want := []string{"C tor's authorities vote for a list that Chive's do not have: Link=5", "Chive's authorities vote for a list that C tor's do not have: Link=4"}
	if got := voteNews([]protover.Set{set("Link=5"), set("Link=4-5")}, ours); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestOptionNews(t *testing.T) {
	if got := optionNews([]string{"SocksPort", "NewOption", "__Own"}, []string{"SOCKSPort", "Log"}); !slices.Equal(got, []string{"NewOption"}) {
		t.Errorf("%q", got)
	}
}

func TestParamNews(t *testing.T) {
	all, _ := changelog(small15)
	constants := []string{"new_limit", "new_kind", "links"}
	if got := paramNews(all, constants, nil); !slices.Equal(got, []string{"new_limit (0.4.9.15)"}) {
		t.Errorf("%q", got)
	}
	if got := paramNews(all, constants, map[string]bool{"new_limit": true}); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := paramNews(all, nil, nil); len(got) != 0 {
		t.Errorf("not a constant: %q", got)
	}
	words, err := goStrings("../../netdoc")
	if err != nil || !words["valid"] && len(words) < 10 || words["no such word"] {
		t.Errorf("%d words, %v", len(words), err)
	}
}

func TestNetworkNews(t *testing.T) {
	n, err := networkOf(small())
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Concat(n.authorities, n.fallbacks)
	from := netdir.Origin{Tor: n.tor, Date: n.date}
	if got := networkNews(n, known, from); len(got) != 0 {
		t.Errorf("%q", got)
	}
	want := []string{"fallback lines: 2 are not in public.txt, and 0 of public.txt are no longer listed", "public.txt is of tor 0.4.9.15, 2026-10-27"}
	from.Date = from.Date.Add(-24 * time.Hour)
	if got := networkNews(n, known[:len(known)-2], from); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	from.Date = n.date
	if got := networkNews(n, append([]string{"authority x"}, known[1:]...), from); !slices.Equal(got, []string{"authority lines: 1 are not in public.txt, and 1 of public.txt are no longer listed"}) {
		t.Errorf("%q", got)
	}
	if got := lines(netdir.Public()); len(got) != 209 || !strings.HasPrefix(got[0], "authority moria1 F533C81CEF0BC0267857C99B2F471ADF249FA232 1A25C6358DB91342AA51720A5038B72742732498 128.31.0.39:9231 128.31.0.39:9201") {
		t.Errorf("%d lines of the built-in list, %q", len(got), got[0])
	}
}

// TestReport: a report of all kinds of news; without the page there is none.
func TestReport(t *testing.T) {
	lists := append(small().strings, "Conflux=1 Cons=1-2 Link=3-5 Microdesc=1-3", "Cons=2 Link=4 Microdesc=2", "new_limit")
	dir := fakePeer(t, "Tor version 0.4.9.15.", small15, lists...)
	var b strings.Builder
	if err := run(&b, dir, t.TempDir(), false); err == nil {
		t.Error("a report without the page")
	}
	p, err := openPeer(dir)
	if err != nil {
		t.Fatal(err)
	}
	n, err := networkOf(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := report(&b, p, n, rowsOf("| 0.4.9.15 | 41411, TROVE-2026-001 | x |\n| 0.4.9.15 | - | x |"), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"The newest tor of Debian is 0.4.9.15; its fallback directories are of 2026-10-28.\n",
		"RELEASES AND THEIR ITEMS WITHOUT A ROW IN DOCS/TOR-RELEASES.MD: 1 NEW\n  0.4.9.15 (2026-10-28), 41457",
		"  C tor's authorities vote for a list that Chive's do not have: Cons=2 Link=4 Microdesc=2\n",
		"THE PUBLIC NETWORK (MAKE PUBLIC-NETWORK): 2 NEW\n",
		"OPTIONS OF TORRC WITHOUT A ROW IN INTERNAL/TORRC: 1 NEW\n  NewOption\n",
		"CONSENSUS PARAMETERS THAT NO FILE NAMES: 1 NEW\n  new_limit (0.4.9.15)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := run(&b, dir, t.TempDir(), true); err != nil || b.String() != n.text() {
		t.Errorf("the list of the public network: %v", err)
	}
}
