package main

import (
	"slices"
	"strconv"
	"strings"
)

// firstRelease is the oldest release of which docs/tor-releases.md tells.
var firstRelease, _ = parseVersion("0.4.9.8")

// parseVersion reads a version of C tor, such as "0.4.9.14" or "0.5.0.1-alpha". What
// follows the numbers does not count.
func parseVersion(s string) (v []int, ok bool) {
	s, _, _ = strings.Cut(s, "-")
	for f := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(f, 10, 16)
		if err != nil {
			return nil, false
		}
		v = append(v, int(n))
	}
	return v, len(v) == 4
}

// told reports whether the page tells of a release.
func told(version string) bool {
	v, ok := parseVersion(version)
	return ok && slices.Compare(v, firstRelease) >= 0
}
