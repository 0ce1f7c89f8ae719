package hsfleet

import (
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestFrontendHalfClose: a frontend says that streams can be half closed only if that is
// so at all backends that clients may meet; a change of it makes a new descriptor.
func TestFrontendHalfClose(t *testing.T) {
	points := make([]netdoc.HSIntroPoint, 1)
	can, cannot, absent := offer{points: points, half: true}, offer{points: points}, offer{}
	for _, c := range []struct {
		used []offer
		want bool
	}{{[]offer{can, can, absent}, true}, {[]offer{can, cannot}, false}, {[]offer{cannot}, false}} {
		b := new(Frontend)
		for _, o := range c.used {
			b.Backends = append(b.Backends, &Backend{used: o})
		}
		if got := b.HalfClose(); got != c.want {
			t.Errorf("%v: %t", c.used, got)
		}
	}
	if can.same(&cannot) {
		t.Error("a change of it is not seen")
	}
	with, without := &Frontend{Backends: []*Backend{{used: can}}}, &Frontend{Backends: []*Backend{{used: cannot}}}
	if with.Offer() == without.Offer() {
		t.Error("it makes no new descriptor")
	}
}
