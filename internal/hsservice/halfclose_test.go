package hsservice

import (
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestFrontendHalfClose: a frontend says that streams can be half closed only if that is
// so at all backends that clients may meet; a change of it makes a new descriptor.
func TestFrontendHalfClose(t *testing.T) {
	points := make([]netdoc.HSIntroPoint, 1)
	can, cannot, absent := offered{points: points, half: true}, offered{points: points}, offered{}
	for _, c := range []struct {
		used []offered
		want bool
	}{{[]offered{can, can, absent}, true}, {[]offered{can, cannot}, false}, {[]offered{cannot}, false}} {
		b := new(balance)
		for _, o := range c.used {
			b.backends = append(b.backends, &backend{used: o})
		}
		if got := b.halfClose(); got != c.want {
			t.Errorf("%v: %t", c.used, got)
		}
	}
	if can.same(&cannot) {
		t.Error("a change of it is not seen")
	}
	with, without := &balance{backends: []*backend{{used: can}}}, &balance{backends: []*backend{{used: cannot}}}
	if with.offer() == without.offer() {
		t.Error("it makes no new descriptor")
	}
}
