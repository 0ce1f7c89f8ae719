package hsfleet

import (
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestShare: lists give points in turn.
func TestShare(t *testing.T) {
	list := func(ids ...byte) (out []netdoc.HSIntroPoint) {
		for _, id := range ids {
			out = append(out, netdoc.HSIntroPoint{Auth: ident.Ed25519ID{id}})
		}
		return out
	}
	for _, c := range []struct {
		lists [][]netdoc.HSIntroPoint
		most  int
		want  []int
	}{
		{nil, 20, nil},
		{[][]netdoc.HSIntroPoint{list(1, 2, 3), nil, list(4)}, 20, []int{3, 0, 1}},
		{[][]netdoc.HSIntroPoint{list(1, 2, 3, 4, 5), list(6), list(7, 8)}, 6, []int{3, 1, 2}},
		{[][]netdoc.HSIntroPoint{list(1, 2), list(2, 1, 3)}, 20, []int{1, 2}}, // each has two of the other's
		{[][]netdoc.HSIntroPoint{list(1), list(2), list(3)}, 2, []int{1, 1, 0}},
	} {
		var got []int
		for _, l := range Share(c.lists, c.most) {
			got = append(got, len(l))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, not %v", got, c.want)
		}
	}
}
