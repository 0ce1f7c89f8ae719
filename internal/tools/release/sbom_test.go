package main

import (
	"maps"
	"regexp"
	"runtime/debug"
	"testing"
)

const chive = "github.com/chivenet/chive"

// TestPart: only the directory of the same repository may have no sum.
func TestPart(t *testing.T) {
	const lab = chive + "/chivelab"
	const sum = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for _, c := range []struct {
		what string
		m    debug.Module
		want string // the component's reference; empty: an error
		sums int
	}{
		{"a module", debug.Module{Path: "a.example/b", Version: "v1.2.3", Sum: sum}, "pkg:golang/a.example/b@v1.2.3", 1},
		{"a replaced module", debug.Module{Path: "a.example/b", Version: "v1.2.3", Replace: &debug.Module{Path: "c.example/d", Version: "v4.5.6", Sum: sum}}, "pkg:golang/c.example/d@v4.5.6", 1},
		{"Chive's directory", debug.Module{Path: chive, Version: "v0.0.0-0", Replace: &debug.Module{Path: "../", Version: "(devel)"}}, "pkg:golang/" + chive + "@v9.8.7", 0},
		{"the laboratory's", debug.Module{Path: lab, Replace: &debug.Module{Path: "../chivelab", Version: "(devel)"}}, "pkg:golang/" + lab + "@v9.8.7", 0},
		{"the laboratory from Chive's", debug.Module{Path: lab, Replace: &debug.Module{Path: "../", Version: "(devel)"}}, "", 0},
		{"no sum", debug.Module{Path: "a.example/b", Version: "v1.2.3"}, "", 0},
		{"half a sum", debug.Module{Path: "a.example/b", Version: "v1.2.3", Sum: "h1:AAAA"}, "", 0},
		{"Chive without a sum", debug.Module{Path: chive, Version: "v1.2.3"}, "", 0},
		{"Chive from another directory", debug.Module{Path: chive, Replace: &debug.Module{Path: "/src/chive", Version: "(devel)"}}, "", 0},
		{"another directory", debug.Module{Path: "a.example/b", Replace: &debug.Module{Path: "../", Version: "(devel)"}}, "", 0},
	} {
		got, err := part(&c.m, "v9.8.7")
		if (err != nil) != (c.want == "") || got.BOMRef != c.want || len(got.Hashes) != c.sums {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
}

// TestOwn: the directories that devp2p/ takes are those of which no sum is wanted.
func TestOwn(t *testing.T) {
	replaced := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:replace)?\s*(\S+) => (\.\S*)$`).FindAllStringSubmatch(string(read(t, "../../../devp2p/go.mod")), -1) {
		replaced[m[1]] = m[2]
	}
	if !maps.Equal(replaced, own) {
		t.Errorf("devp2p/go.mod replaces %v, and the list of modules knows %v", replaced, own)
	}
}
