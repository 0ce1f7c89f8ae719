package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/command/commandtest"
)

// TestWords: each flag that has a few words lists them, suggests one, and completes them.
func TestWords(t *testing.T) { commandtest.Words(t, Chive, 60) }

// TestCompletion: a shell completes the values of all flags, and commands' arguments.
func TestCompletion(t *testing.T) {
	count := commandtest.Completion(t, Chive)
	for what, least := range map[string]int{"words": 60, "countries": 20, "directories": 20, "extensions": 20, "files": 20, "nothing": 100} {
		if count[what] < least {
			t.Errorf("only %d flags complete %s", count[what], what)
		}
	}
	for line, want := range map[string]string{
		"keys certify ": ":16", "onion key show ": ":16", "onion clients add ": ":16", "onion clients add dir ": ":4", "fte keygen ": ":0",
		"config import ": ":0", "network import ": ":0", "get ": ":4", "onion serve ": ":4", "keys family ": ":4", "proxy ": ":4",
		"proxy --exclude-nodes {de},": "{de},{fr}\n", "conf": "config\n", "config check ": "authority\n",
		"fte --upstream-format ": "words-request\n", "fte --downstream-format ": "words-response\n", "fte test --format ": "words\n",
	} {
		out, err := commandtest.Run(t, Chive(), append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)...)
		if err != nil || !strings.Contains("\n"+out, "\n"+want) {
			t.Errorf("%q: %v, %q; want %q", line, err, out, want)
		}
	}
}

// TestFTEWords: chive fte offers what package fte knows.
func TestFTEWords(t *testing.T) {
	for _, w := range fteWires {
		if m, err := fte.ParseMode(w); err != nil || m.String() != w {
			t.Errorf("%s: %v, %v", w, m, err)
		}
	}
	for _, r := range fteReleases {
		if _, err := fte.Release(r, false); err != nil {
			t.Error(err)
		}
	}
	if a, err := fte.Release("", false); err != nil {
		t.Error(err)
	} else if b, err := fte.Release(fteReleases[0], false); err != nil || len(a.Names()) != len(b.Names()) {
		t.Errorf("%s is not the default: %v", fteReleases[0], err)
	}
}
