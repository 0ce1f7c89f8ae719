package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// small15 is a changelog in C tor's form.
const small15 = `Changes in version 0.4.9.15 - 2026-10-28
  This is a release.

  o Major bugfixes (one,
    two, TROVE-2026-001):
    - Stop what happens on links, like
      in ticket 40000. Fixes bugs 41457, 41458, and 41459; bugfix on 0.4.9.14.
    - Add the consensus parameter new_limit and the metric
      relay_total{type="new_kind"}. Part of ticket 41411.

  o Minor features (fallbackdir):
    - Regenerate fallback directories generated on October 28, 2026.


Changes in version 0.4.8.30-rc - 2026-10-01
  o Minor features (fallbackdir):
    - Regenerate fallback directories generated on October 01, 2026.
`

func TestChangelog(t *testing.T) {
	all, err := changelog(small15)
	if err != nil || len(all) != 2 || all[0].version != "0.4.9.15" || all[0].day != "2026-10-28" || all[1].version != "0.4.8.30-rc" {
		t.Fatalf("%+v %v", all, err)
	}
	var got []string
	for _, it := range all[0].items {
		got = append(got, fmt.Sprintf("%s|%.22s|%d|%v", it.title, it.text, len(it.text), it.keys))
	}
	want := []string{
		"Major bugfixes (one, two, TROVE-2026-001)|Stop what happens on l|105|[41457 41458 41459 TROVE-2026-001]",
		"Major bugfixes (one, two, TROVE-2026-001)|Add the consensus para|104|[41411 TROVE-2026-001]",
		"Minor features (fallbackdir)|Regenerate fallback di|62|[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if _, err := changelog("Changes in version 0.4.9.15\n"); err == nil {
		t.Error("a changelog without a release is accepted")
	}
}

// TestListDate: a release that does not say when its list was made has the one of the release before.
func TestListDate(t *testing.T) {
	all, _ := changelog(small15)
	for i, want := range []string{"2026-10-28", "2026-10-01"} {
		if d, err := listDate(all[i:]); err != nil || d.Format("2006-01-02") != want {
			t.Errorf("%v %v", d, err)
		}
	}
	all[0].items = nil
	if d, err := listDate(all); err != nil || d.Format("2006-01-02") != "2026-10-01" {
		t.Errorf("%v %v", d, err)
	}
	if _, err := listDate(nil); err == nil {
		t.Error("no date, and no error")
	}
}

func TestTold(t *testing.T) {
	for v, want := range map[string]bool{"0.4.9.8": true, "0.4.9.15": true, "0.5.0.1-alpha": true, "0.4.9.7": false, "0.4.8.30": false, "0.4.9": false, "Arti": false} {
		if told(v) != want {
			t.Errorf("%s: %v", v, !want)
		}
	}
}
