package relay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/pace"
)

// TestFlooded: an address whose circuits have too many cells for the next relay, again and
// again, may make no circuits for a while.
func TestFlooded(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	a, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	limits := dosParams{circuits: true, circuitConns: 3, circuitPace: pace.Limit{Rate: 3, Burst: 90}, circuitBan: time.Hour, floods: 3}
	off, never := limits, limits
	off.circuits, never.floods = false, 0
	for _, p := range []dosParams{off, never} {
		d.params = p
		for range 10 {
			d.flooded(a)
		}
	}
	d.params = limits
	for range 2 { // the count begins again after a ban
		for i := range limits.floods {
			if !d.create(a) {
				t.Errorf("a ban after %d", i)
			}
			d.flooded(a)
		}
		if d.create(a) || !d.create(other) {
			t.Error("no ban, or one of another address")
		}
		d.flooded(a) // of a circuit that was there
		if now = now.Add(time.Hour); !d.create(a) {
			t.Error("the ban does not end")
		}
	}
}
