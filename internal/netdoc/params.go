package netdoc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Params holds named numbers, as on the lines "params" and "bandwidth-weights"
// of a consensus: unique names in lexical order.
type Params []Param

// Param is one of Params.
type Param struct {
	Name  string
	Value int32
}

// maxParams bounds a line; the public consensus has about a hundred.
const maxParams = 4096

// ParseParams reads NAME=INT32 words. Like C tor, it refuses duplicates. It
// does not check the order, because the result is sorted.
func ParseParams(args Args) (Params, error) {
	var p Params
	for w, ok := args.Next(); ok; w, ok = args.Next() {
		name, num, found := strings.Cut(string(w), "=")
		if !found || name == "" {
			return nil, fault.New(fault.Directory, "%q is not NAME=NUMBER", clip(w))
		}
		neg := strings.HasPrefix(num, "-")
		v, err := parseUint([]byte(strings.TrimPrefix(num, "-")), name, 1<<31)
		if err != nil || (!neg && v == 1<<31) {
			return nil, fault.New(fault.Directory, "%q is not a 32-bit number", clip(w))
		}
		n := int64(v)
		if neg {
			n = -n
		}
		if len(p) == maxParams {
			return nil, fault.New(fault.Resource, "more than %d parameters", maxParams)
		}
		p = append(p, Param{name, int32(n)})
	}
	slices.SortStableFunc(p, func(a, b Param) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(p); i++ {
		if p[i].Name == p[i-1].Name {
			return nil, fault.New(fault.Directory, "%q occurs twice", p[i].Name)
		}
	}
	return p, nil
}

// Lookup returns the number of that name, and whether there is one.
func (p Params) Lookup(name string) (int32, bool) {
	if i, found := slices.BinarySearchFunc(p, name, func(p Param, name string) int { return cmp.Compare(p.Name, name) }); found {
		return p[i].Value, true
	}
	return 0, false
}

// Get returns the number of that name, clamped to [lo, hi], or def if there is
// none (param-spec).
func (p Params) Get(name string, def, lo, hi int32) int32 {
	v, ok := p.Lookup(name)
	if !ok {
		return def
	}
	return min(max(v, lo), hi)
}

// String returns the line's arguments. C tor sorts "NAME=VALUE", and refuses another
// order. "=" sorts before letters, but after digits and "-". So "a=1" comes before
// "ab=1", but after "a1=1".
func (p Params) String() string {
	words := make([]string, len(p))
	for i, kv := range p {
		words[i] = kv.Name + "=" + itoa(kv.Value)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
