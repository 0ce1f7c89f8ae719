// Package version says which version of Chive this program has.
package version

import (
	"runtime/debug"
	"strings"
	"time"
)

// Module is the path of Chive's module. It is also where Chive is found on the web.
const Module = "github.com/chivenet/chive"

// release is the version of a released binary. The linker sets it, as the version must
// not depend on how the source was fetched (internal/tools/release).
var release string

// commit says from which commit a program was built: its hash, its time by RFC 3339 and, if the
// source was changed since, "modified", with commas. The linker sets it (make build).
var commit string

// Commit returns from which commit the program was built, for people: "e53b046c2213 of 2026-11-24
// 18:02:11 UTC, modified". It is empty if the build did not record one. It goes to no peer.
func Commit() string {
	if commit != "" {
		hash, rest, _ := strings.Cut(commit, ",")
		at, modified, _ := strings.Cut(rest, ",")
		return commitOf(hash, at, modified == "modified")
	}
	b, ok := debug.ReadBuildInfo()
	if !ok || b.Main.Path != Module {
		return "" // of another program's source
	}
	return recorded(b)
}

// recorded returns the commit that go build recorded by itself.
func recorded(b *debug.BuildInfo) string {
	m := map[string]string{}
	for _, s := range b.Settings {
		m[s.Key] = s.Value
	}
	return commitOf(m["vcs.revision"], m["vcs.time"], m["vcs.modified"] == "true")
}

func commitOf(hash, at string, modified bool) string {
	if hash == "" {
		return ""
	}
	out := hash[:min(len(hash), 12)]
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		out += " of " + t.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if modified {
		out += ", modified"
	}
	return out
}

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
