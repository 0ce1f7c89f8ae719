// Package protover reads and compares subprotocol versions (tor-spec,
// "subprotocol versioning"), as in "Link=1-5 Relay=1-4 FlowCtrl=1-2".
package protover

import (
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Names of the subprotocols that Chive uses.
const (
	Link      = "Link"
	LinkAuth  = "LinkAuth"
	Relay     = "Relay"
	HSIntro   = "HSIntro"
	HSRend    = "HSRend"
	HSDir     = "HSDir"
	DirCache  = "DirCache"
	Desc      = "Desc"
	Microdesc = "Microdesc"
	Cons      = "Cons"
	Padding   = "Padding"
	FlowCtrl  = "FlowCtrl"
	Conflux   = "Conflux"

	ChiveStream = "ChiveStream" // docs/spec/half-close.md
)

// Versions of subprotocols on which our messages to a relay depend.
const (
	RelayNtor       = 2 // Relay: CREATE2/EXTEND2 with ntor
	RelayIPv6Extend = 3 // Relay: EXTEND2 over IPv6
	RelayNtorV3     = 4 // Relay: ntor-v3
	RelayNegotiate  = 5 // Relay: the subprotocol-request extension of ntor-v3
	RelayCGO        = 6 // Relay: counter galois onion
	FlowCtrlSendme  = 1 // FlowCtrl: authenticated SENDME
	FlowCtrlCC      = 2 // FlowCtrl: congestion control
	ConfluxV1       = 1 // Conflux: version 1
	PaddingHS       = 2 // Padding: machines for the circuits of onion services' clients
	HSDirV3         = 2 // HSDir: descriptors of v3 onion services
	HSIntroV3       = 4 // HSIntro: introductions to v3 onion services
	HSIntroDoS      = 5 // HSIntro: and the service may ask for a limit of introductions
	HSRendV3        = 2 // HSRend: rendezvous with v3 onion services
	StreamHalfClose = 1 // ChiveStream: HALF_CLOSE
)

// maxVersion is the largest version number (the versions fit into a 64-bit mask).
const maxVersion = 63

// maxNames bounds the names of a list: C tor's relays have about a dozen.
// maxName bounds the length of a name, as in C tor.
const (
	maxNames = 64
	maxName  = 100
)

// Set holds the versions of each subprotocol that a relay supports. The zero Set
// supports nothing. Sets are immutable and may be shared.
type Set struct{ m map[string]uint64 }

// Parse reads a list such as "Link=1-5 Relay=1,3". An empty list is an empty set. As in
// C tor, a name may occur several times, and numbers may begin with zeros.
// A name without "=", a version above 63 and an inverted range are errors. So is all else
// that C tor refuses, tabs included: it would drop a whole consensus for one such list.
func Parse(s string) (Set, error) {
	m := map[string]uint64{}
	for f := range strings.SplitSeq(s, " ") {
		if f == "" {
			continue
		}
		name, list, ok := strings.Cut(f, "=")
		if !ok || !validName(name) {
			return Set{}, fault.New(fault.Protocol, "subprotocol versions: %q is not NAME=VERSIONS", f)
		}
		mask, err := parseVersions(list)
		if err != nil {
			return Set{}, fault.New(fault.Protocol, "subprotocol versions: %s: %w", name, err)
		}
		if m[name] |= mask; len(m) > maxNames {
			return Set{}, fault.New(fault.Resource, "subprotocol versions: more than %d names", maxNames)
		}
	}
	return Set{m}, nil
}

// validName reports whether name has only letters, digits and hyphens, and not too many.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

func parseVersions(list string) (uint64, error) {
	var mask uint64
	if list == "" {
		return 0, nil
	}
	for _, r := range strings.Split(list, ",") {
		loS, hiS, isRange := strings.Cut(r, "-")
		if !isRange {
			hiS = loS
		}
		lo, err := parseVersion(loS)
		if err != nil {
			return 0, err
		}
		hi, err := parseVersion(hiS)
		if err != nil {
			return 0, err
		}
		if lo > hi {
			return 0, fault.New(fault.Protocol, "range %q is inverted", r)
		}
		for v := lo; v <= hi; v++ {
			mask |= 1 << v
		}
	}
	return mask, nil
}

func parseVersion(s string) (uint, error) {
	if s == "" || s[0] == '+' {
		return 0, fault.New(fault.Protocol, "%q is not a version", s)
	}
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil || v > maxVersion {
		return 0, fault.New(fault.Protocol, "%q is not a version from 0 to %d", s, maxVersion)
	}
	return uint(v), nil
}

// Has reports whether version v of the subprotocol name is supported.
func (s Set) Has(name string, v int) bool {
	return v >= 0 && v <= maxVersion && s.m[name]&(1<<uint(v)) != 0
}

// Versions returns the versions of one subprotocol in canonical form, such as
// "1-3,8"; empty if the set does not have it.
func (s Set) Versions(name string) string {
	var b strings.Builder
	writeRanges(&b, s.m[name])
	return b.String()
}

// IsZero reports whether the set names no subprotocol.
func (s Set) IsZero() bool { return len(s.m) == 0 }

// Missing returns the members of want that are not in s, as text such as "Cons=2
// Link=4"; empty if s supports all of want.
func (s Set) Missing(want Set) string {
	out := Set{map[string]uint64{}}
	for n, w := range want.m {
		if d := w &^ s.m[n]; d != 0 {
			out.m[n] = d
		}
	}
	return out.String()
}

// String returns the set in canonical form: names sorted, ranges joined.
func (s Set) String() string {
	names := make([]string, 0, len(s.m))
	for n := range s.m {
		names = append(names, n)
	}
	slices.Sort(names)
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(n)
		b.WriteByte('=')
		writeRanges(&b, s.m[n])
	}
	return b.String()
}

func writeRanges(b *strings.Builder, mask uint64) {
	first := true
	for v := 0; v <= maxVersion; v++ {
		if mask&(1<<v) == 0 {
			continue
		}
		end := v
		for end < maxVersion && mask&(1<<(end+1)) != 0 {
			end++
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(strconv.Itoa(v))
		if end > v {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(end))
		}
		v = end
	}
}
