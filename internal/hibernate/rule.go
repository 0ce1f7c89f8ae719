package hibernate

import (
	"math"
	"slices"
)

// Rule says which bytes count against the limit.
type Rule uint8

// The rules, by the names of tor(1), "AccountingRule".
const (
	Max Rule = iota // the greater of the bytes read and the bytes written
	Sum             // both together
	In              // those read
	Out             // those written
)

// Rules are the names of the rules; a Rule is an index.
var Rules = []string{"max", "sum", "in", "out"}

// String returns the rule's name.
func (r Rule) String() string { return Rules[r] }

// RuleOf returns the rule of a name.
func RuleOf(name string) (Rule, bool) {
	i := slices.Index(Rules, name)
	return Rule(max(i, 0)), i >= 0
}

// Of returns how many of the bytes read and written count.
func (r Rule) Of(read, written uint64) uint64 {
	switch r {
	case Sum:
		return add(read, written)
	case In:
		return read
	case Out:
		return written
	}
	return max(read, written)
}

// add returns the sum, or the greatest number if that is less: a count that comes from a file
// can be anything, and must not begin at 0 again.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
