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
