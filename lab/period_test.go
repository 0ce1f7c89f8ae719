package lab

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
)

// TestPeriodParams: the consensus says how long a time period of onion services is, for Arti,
// and it is what C tor takes in a network for tests. With the default interval it
// does.
func TestPeriodParams(t *testing.T) {
	for interval, want := range map[time.Duration]int32{defaultInterval: 6, 5 * time.Minute: 120, 10 * time.Second: 0, 13 * time.Second: hscrypto.MinPeriod, 24 * time.Hour: 0} {
		p := periodParams(interval)
		if want == 0 && p == nil {
			continue
		}
		if len(p) != 1 || p[0].Name != "hsdir_interval" || p[0].Value != want {
			t.Errorf("%v: %v, want %d", interval, p, want)
		}
	}
}
