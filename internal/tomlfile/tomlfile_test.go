package tomlfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestDecode(t *testing.T) {
	known := []string{"socks", "data-dir", "authority", "nickname"}
	type file struct {
		Socks     string `toml:"socks"`
		Authority []struct {
			Nickname string `toml:"nickname"`
		} `toml:"authority"`
	}
	for doc, want := range map[string]string{
		"socks = \"9050\"":                    "",
		"sokcs = \"9050\"":                    `f: unknown key "sokcs"; did you mean "socks"?`,
		"data_dir = \"x\"":                    `f: unknown key "data_dir"; did you mean "data-dir"?`,
		"Socks1 = 1":                          `f: unknown key "Socks1"; did you mean "socks"?`,
		"completely-different = 1":            `f: unknown key "completely-different"`,
		"[[authority]]\nnick = 'x'":           `f: unknown key "authority.nick"`,
		"[[authority]]\nnicknam = 'x'":        `f: unknown key "authority.nicknam"; did you mean "nickname"?`,
		"\n\nsocks = ":                        "f:3: ",
		"socks = 'a'\nsocks = 'b'":            "f:2: ",
		"socks = 5":                           "f: ",
		strings.Repeat("#", MaxSize+1) + "\n": "f: 4194306 bytes",
	} {
		err := Decode("f", []byte(doc), new(file), known)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", doc, err, want)
		}
		if err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%.40q: kind %v", doc, fault.KindOf(err))
		}
		if want != "" && !strings.Contains(want, "did you") && strings.HasPrefix(want, "f: unknown") && err.Error() != want {
			t.Errorf("%.40q: %v suggests too much", doc, err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"a_b", "a-b", 0}} {
		if got := distance(tt.a, tt.b, 10); got != tt.want {
			t.Errorf("%s, %s: %d", tt.a, tt.b, got)
		}
	}
	if distance("abcdef", "uvwxyz", 3) != 3 {
		t.Error("the limit")
	}
}

// TestEntries: Entries returns the line of every key of the top level, for all
// types of values.
func TestEntries(t *testing.T) {
	const doc = "# a comment\na = 1\n\nlist = [\n'x',\n'y',\n]\n\"quoted key\" = true\ntext = '''\nb = 5\n'''\ndate = 1979-05-27\nin = {a = 1}\ndotted.a = 1\n\n[table]\nc = 2\n\n[[tables]]\nd = 1\n[[tables]]\nd = 2\n"
	got, err := Entries("f", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		key  string
		line int
	}{{"a", 2}, {"list", 4}, {"quoted key", 8}, {"text", 11}, {"date", 12}, {"in", 13}, {"dotted", 14}, {"table", 16}, {"tables", 21}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, e := range got {
		if e.Key != want[i].key || e.Line() != want[i].line || e.Value == nil {
			t.Errorf("line %d of %s, want line %d of %s", e.Line(), e.Key, want[i].line, want[i].key)
		}
	}
	if _, err := Entries("f", []byte("a = 1\na = 2")); err == nil || !strings.HasPrefix(err.Error(), "f:2: ") {
		t.Error(err)
	}
}

// TestEntriesCost: a file with thousands of keys costs no more than its length asks for.
func TestEntriesCost(t *testing.T) {
	for _, form := range []string{"k%d = 1\n", "[k%d]\n", "a.k%d = 1\n"} {
		var doc strings.Builder
		for i := range 4000 {
			fmt.Fprintf(&doc, form, i)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries, err := Entries("f", []byte(doc.String()))
		if err != nil || len(entries) == 0 {
			t.Fatal(err)
		}
		if last := entries[len(entries)-1]; last.Line() != len(entries) {
			t.Errorf("%s is in line %d", last.Key, last.Line())
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 50<<20 {
			t.Errorf("%q: %d bytes were allocated for %d", form, n, doc.Len())
		}
	}
}
