package authority

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// The relays of a new network differ by seconds and by a little bandwidth. A
// testing authority gives all of them the Guard flag; any other authority gives
// it to few.
func TestTestingFlags(t *testing.T) {
	const guard = netdoc.FlagGuard | netdoc.FlagStable | netdoc.FlagFast | netdoc.FlagV2Dir
	var all []*candidate
	for i := range 8 {
		all = append(all, &candidate{d: &netdoc.RouterDesc{TunnelledDir: true, Published: time.Now()}, running: true,
			uptime: time.Duration(i) * time.Second, creditKB: uint32(50 * i)})
	}
	count := func(c FlagConfig) (n int) {
		c.setDefaults()
		th := c.thresholds(all, false, false, nil)
		for _, r := range all {
			if c.flags(r, &th, false, time.Now()).Has(guard) {
				n++
			}
		}
		return n
	}
	if n := count(TestingFlags()); n != len(all) {
		t.Errorf("a testing authority calls %d of %d relays guards", n, len(all))
	}
	if n := count(FlagConfig{}); n == 0 || n > len(all)/2 {
		t.Errorf("an authority calls %d of %d relays guards", n, len(all))
	}
}
