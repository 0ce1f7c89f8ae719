package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	chive := func(v string) debug.Module { return debug.Module{Path: Module, Version: v} }
	imported, replaced := chive("v1.2.3"), chive("v1.2.3")
	replaced.Replace = &debug.Module{Path: "../chive"}
	other := debug.Module{Path: "example.com/program", Version: "v7.0.0"}
	for _, c := range []struct {
		b    debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: chive("v0.9.0")}, "v0.9.0"},
		{debug.BuildInfo{Main: chive("(devel)")}, "devel"},
		{debug.BuildInfo{Main: chive("")}, "devel"},
		{debug.BuildInfo{Main: other, Deps: []*debug.Module{&imported}}, "v1.2.3"},
		{debug.BuildInfo{Main: other, Deps: []*debug.Module{&replaced}}, "devel"},
		{debug.BuildInfo{Main: other}, "devel"},
	} {
		if got := of(&c.b); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.b, got, c.want)
		}
	}
}

func TestCommit(t *testing.T) {
	defer func() { commit = "" }()
	for text, want := range map[string]string{
		"e53b046c2213,2026-11-24T19:02:11+01:00":          "e53b046c2213 of 2026-11-24 18:02:11 UTC",
		"e53b046c2213,2026-11-24T19:02:11+01:00,modified": "e53b046c2213 of 2026-11-24 18:02:11 UTC, modified",
		"e53b046c22134b5b5b5b,,":                          "e53b046c2213",
	} {
		if commit = text; Commit() != want {
			t.Errorf("%q: %q, want %q", text, Commit(), want)
		}
	}
	b := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "e53b046c22134b5b"}, {Key: "vcs.time", Value: "2026-11-24T18:02:11Z"}, {Key: "vcs.modified", Value: "true"}}}
	if got, want := recorded(b), "e53b046c2213 of 2026-11-24 18:02:11 UTC, modified"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := recorded(new(debug.BuildInfo)); got != "" {
		t.Error(got)
	}
}
