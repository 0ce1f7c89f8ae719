// Package version says which version of Chive this program has.
package version

import "runtime/debug"

// Module is the path of Chive's module. It is also where Chive is found on the web.
const Module = "github.com/chivenet/chive"

// release is the version of a released binary. The linker sets it, as the version must
// not depend on how the source was fetched (internal/tools/release).
var release string

// String returns the version, such as "v0.9.0", also in a program that imports Chive;
// "devel" if the build did not record one.
func String() string {
	if release != "" {
		return release
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return of(b)
}

// of returns the version that the build recorded of Chive's module.
func of(b *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&b.Main}, b.Deps...) {
		if m.Path != Module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}
