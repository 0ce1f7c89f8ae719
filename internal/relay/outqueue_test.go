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
		if now = now.Add(time.Hour * 3 / 2); !d.create(a) {
			t.Error("the ban does not end")
		}
	}
}

// TestBansDiffer: nobody can tell when a ban ends, and none is shorter than the consensus says.
func TestBansDiffer(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := newDoS(func() time.Time { return now }, true, false)
	one := pace.Limit{Rate: 1e-9, Burst: 1}
	d.params = dosParams{circuits: true, circuitPace: one, circuitBan: time.Hour, floods: 1, conns: true, connMax: 9, connPace: one, connBan: time.Hour}
	var ends [3]map[time.Time]bool
	for i := range byte(40) {
		a := netip.AddrFrom4([4]byte{192, 0, 2, i})
		for kind, bans := range []func() time.Time{
			func() time.Time { d.connect(a); d.connect(a); return d.peerLocked(a, now).banConn },
			func() time.Time { d.create(a); d.create(a); return d.peerLocked(a, now).banCirc },
			func() time.Time {
				d.peerLocked(a, now).banCirc = now
				d.flooded(a)
				return d.peerLocked(a, now).banCirc
			},
		} {
			if ends[kind] == nil {
				ends[kind] = map[time.Time]bool{}
			}
			end := bans()
			ends[kind][end] = true
			if end.Before(now.Add(time.Hour)) || end.After(now.Add(time.Hour*3/2)) {
				t.Errorf("a ban of %v", end.Sub(now))
			}
		}
	}
	for kind, all := range ends {
		if len(all) < 30 {
			t.Errorf("kind %d: %d different ends", kind, len(all))
		}
	}
	if banTime(0) != 0 {
		t.Error("a ban of nothing")
	}
}
