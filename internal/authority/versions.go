package authority

import (
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// oldestTor is the oldest release of C tor whose relays are accepted, C tor's
// default: the 0.4.8 series cannot use microdescriptors without TAP keys.
const oldestTor = "0.4.9.1-alpha"

// checkPlatform says why relays of this platform line are refused. Lines that do
// not begin as C tor's are of other programs, and not judged.
func checkPlatform(platform string) error {
	if !strings.HasPrefix(platform, "Tor ") {
		return nil
	}
	w := strings.Fields(platform)[1:]
	if len(w) > 1 && (strings.HasPrefix(w[1], "(r") || strings.HasPrefix(w[1], "(git-")) {
		w[0] += " " + w[1]
	}
	if len(w) == 0 || !isVersion(w[0]) {
		return fault.New(fault.Refused, "malformed platform string")
	}
	if compareVersions(w[0], oldestTor) < 0 {
		return fault.New(fault.Refused, "the Tor version is insecure or unsupported: %s is the oldest that is accepted; please upgrade", oldestTor)
	}
	return nil
}

func isVersion(s string) bool {
	_, ok := parseVersion(s)
	return ok
}

// version is a Tor version (version-spec), such as "Tor 0.4.9.11" or
// "0.4.9.1-alpha-dev (git-0123abcd)".
type version struct {
	major, minor, micro, patch int
	status                     int // pre-releases before releases
	tag                        string
	svn                        int
	git                        []byte
}

// The kinds of releases, in their order.
const (
	statusPre = iota
	statusRC
	statusRelease
)

// parseVersion reads a version with its optional status tag and revision.
func parseVersion(s string) (v version, ok bool) {
	v.status = statusRelease
	if len(s) >= 4 && strings.EqualFold(s[:4], "Tor ") {
		s = s[4:]
	}
	number := func(dst *int) bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		v, err := strconv.ParseInt(s[:n], 10, 32)
		*dst, s = int(v), s[n:]
		return err == nil
	}
	dot := func() bool {
		rest, ok := strings.CutPrefix(s, ".")
		s = rest
		return ok
	}
	if !number(&v.major) || !dot() || !number(&v.minor) {
		return v, false
	}
	switch {
	case s == "":
		return v, true
	case s[0] == '-':
		return v, v.parseTag(s)
	}
	if !dot() || !number(&v.micro) {
		return v, false
	}
	switch {
	case s == "":
		return v, true
	case s[0] == '.':
		s = s[1:]
	case s[0] == '-':
		return v, v.parseTag(s)
	case strings.HasPrefix(s, "pre"):
		v.status, s = statusPre, s[3:]
	case strings.HasPrefix(s, "rc"):
		v.status, s = statusRC, s[2:]
	default:
		return v, false
	}
	return v, number(&v.patch) && v.parseTag(s)
}

// parseTag reads "-alpha", " (r1234)" and " (git-0123abcd)".
func (v *version) parseTag(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '.') {
		s = s[1:]
	}
	end := strings.IndexAny(s, " \t")
	if end < 0 {
		end = len(s)
	}
	v.tag = s[:end]
	s = strings.TrimLeft(s[end:], " \t")
	if rest, ok := strings.CutPrefix(s, "(r"); ok {
		num, _, closed := strings.Cut(rest, ")")
		n, err := strconv.ParseInt(num, 10, 32)
		v.svn = int(n)
		return closed && err == nil
	}
	if rest, ok := strings.CutPrefix(s, "(git-"); ok {
		hash, _, closed := strings.Cut(rest, ")")
		var err error
		v.git, err = hex.DecodeString(hash)
		return closed && err == nil && len(v.git) > 0
	}
	return true
}

// compareVersions orders versions; texts that are no version come last, ordered
// by their bytes.
func compareVersions(a, b string) int {
	va, oka := parseVersion(a)
	vb, okb := parseVersion(b)
	switch {
	case oka && !okb:
		return -1
	case okb && !oka:
		return 1
	case !oka:
		return strings.Compare(a, b)
	}
	return cmp.Or(
		cmp.Compare(va.major, vb.major), cmp.Compare(va.minor, vb.minor), cmp.Compare(va.micro, vb.micro),
		cmp.Compare(va.status, vb.status), cmp.Compare(va.patch, vb.patch), strings.Compare(va.tag, vb.tag),
		cmp.Compare(va.svn, vb.svn), cmp.Compare(len(va.git), len(vb.git)), strings.Compare(string(va.git), string(vb.git)),
	)
}
