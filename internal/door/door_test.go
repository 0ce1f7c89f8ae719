package door

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/socks"
)

// TestIsolationKey: keys differ exactly where isolations do.
func TestIsolationKey(t *testing.T) {
	all := []socks.Isolation{
		{}, {Door: "a"}, {Protocol: "a"}, {Auth: "a"}, {Host: "a"}, {Port: 1},
		{Client: netip.MustParseAddr("127.0.0.1")}, {Door: `a" "b`}, {Door: "a", Protocol: "b"},
	}
	seen := map[string]socks.Isolation{}
	for _, i := range all {
		k := isolationKey(i)
		if other, ok := seen[k]; ok {
			t.Errorf("%+v and %+v share circuits", i, other)
		}
		seen[k] = i
		if isolationKey(i) != k {
			t.Errorf("%+v does not share with itself", i)
		}
	}
}
