package netdoc

import (
	"bytes"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Flags is the set of flags of a router status that this package knows ("s"
// line). It ignores others.
type Flags uint32

// The flags, in the order of their names.
const (
	FlagAuthority Flags = 1 << iota
	FlagBadExit
	FlagExit
	FlagFast
	FlagGuard
	FlagHSDir
	FlagMiddleOnly
	FlagNoEdConsensus
	FlagRunning
	FlagStable
	FlagStaleDesc
	FlagSybil
	FlagV2Dir
	FlagValid
)

var flagNames = [...]string{"Authority", "BadExit", "Exit", "Fast", "Guard", "HSDir", "MiddleOnly", "NoEdConsensus", "Running", "Stable", "StaleDesc", "Sybil", "V2Dir", "Valid"}

// flagOf returns the flag of that name, or zero.
func flagOf(name []byte) Flags {
	for i, n := range flagNames {
		if string(name) == n {
			return 1 << i
		}
	}
	return 0
}

// parseFlags reads names, which must be in lexical order.
func parseFlags(a Args) (f Flags, err error) {
	var last []byte
	for w, ok := a.Next(); ok; w, ok = a.Next() {
		if bytes.Compare(last, w) >= 0 {
			return 0, fault.New(fault.Directory, "flag %q is out of order", clip(w))
		}
		f |= flagOf(w)
		last = w
	}
	return f, nil
}

// Has reports whether all of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// String returns the names in lexical order, as in an "s" line.
func (f Flags) String() string {
	var names []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " ")
}
