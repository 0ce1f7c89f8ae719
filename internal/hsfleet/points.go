package hsfleet

import (
	"bytes"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// CheckPoint refuses an introduction point that clients could not use, or that would
// make them connect, through their last relay, to what only that relay can reach.
func CheckPoint(p *netdoc.HSIntroPoint, private bool) error {
	t, err := linkspec.TargetOf(p.Specs)
	switch {
	case err != nil:
		return err
	case t.Ed.IsZero() || p.Onion.IsZero():
		return fault.New(fault.Protocol, "the introduction point has no Ed25519 identity, or no onion key")
	case len(t.Addrs) == 0:
		return fault.New(fault.Protocol, "the introduction point has no address")
	}
	for _, a := range t.Addrs {
		if !private && !netaddr.Public(a.Addr()) {
			return fault.New(fault.Protocol, "the introduction point has a private address")
		}
	}
	return nil
}

// Usable returns the points that can be used, in an order that does not depend on that
// of the descriptor.
func Usable(points []netdoc.HSIntroPoint, private bool) (out []netdoc.HSIntroPoint) {
	for i := range points {
		if CheckPoint(&points[i], private) == nil {
			out = append(out, points[i])
		}
	}
	slices.SortFunc(out, func(a, b netdoc.HSIntroPoint) int { return bytes.Compare(a.Auth[:], b.Auth[:]) })
	return out
}

// Share cuts lists of points until there are at most so many in all. It takes one of
// each list in turn, so that no list takes the place of the others. A point that is in
// two lists counts for the first one.
func Share(lists [][]netdoc.HSIntroPoint, most int) [][]netdoc.HSIntroPoint {
	out := make([][]netdoc.HSIntroPoint, len(lists))
	taken := map[ident.Ed25519ID]bool{}
	for round, n := 0, 0; ; round++ {
		more := false
		for i, l := range lists {
			if round >= len(l) {
				continue
			}
			more = true
			if n < most && !taken[l[round].Auth] {
				taken[l[round].Auth] = true
				out[i] = append(out[i], l[round])
				n++
			}
		}
		if !more || n >= most {
			return out
		}
	}
}

// SamePoints reports whether two lists have the same points, in any order.
func SamePoints(a, b []netdoc.HSIntroPoint) bool {
	if len(a) != len(b) {
		return false
	}
	in := map[ident.Ed25519ID]ident.X25519Key{}
	for _, p := range a {
		in[p.Auth] = p.Enc
	}
	for _, p := range b {
		if enc, ok := in[p.Auth]; !ok || enc != p.Enc {
			return false
		}
		delete(in, p.Auth)
	}
	return true
}
