package netdir

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// times returns a directory whose consensus has nothing but times and parameters.
func times(at time.Time, interval time.Duration, params netdoc.Params) *Directory {
	d := &Directory{}
	d.pre.Lifetime = netdoc.Lifetime{ValidAfter: at, FreshUntil: at.Add(interval), ValidUntil: at.Add(3 * interval)}
	d.pre.Params = params
	return d
}

// TestHSTimes has the example of rend-spec-v3 (TIME-PERIODS), and of C tor's test
// of the time between a period's start and the next shared random value: it is from
// noon to midnight with an interval of an hour.
func TestHSTimes(t *testing.T) {
	at := time.Date(2016, 4, 13, 11, 0, 0, 0, time.UTC)
	ht := times(at, time.Hour, nil).HSTimes(false)
	if ht.Period != (hscrypto.Period{Num: 16903, Minutes: 1440}) || ht.Offset != 12*time.Hour || ht.NewValue || !ht.RunStart.Equal(at.Add(-11*time.Hour)) {
		t.Errorf("%+v", ht)
	}
	for hour := range 48 {
		at := time.Date(1985, 10, 26, hour, 0, 0, 0, time.UTC)
		if got, want := times(at, time.Hour, nil).HSTimes(false).NewValue, hour%24 >= 12; got != want {
			t.Errorf("at %d o'clock: %v", hour, got)
		}
	}
	param := func(v int32) netdoc.Params { return netdoc.Params{{Name: "hsdir_interval", Value: v}} }
	for _, c := range []struct {
		interval time.Duration
		params   netdoc.Params
		testing  bool
		minutes  uint64
		offset   time.Duration
	}{
		{time.Hour, nil, false, 1440, 12 * time.Hour},
		{time.Hour, nil, true, 1440, 12 * time.Hour},
		{5 * time.Minute, nil, true, 120, time.Hour},
		{20 * time.Second, nil, true, 8, 4 * time.Minute},
		{20 * time.Second, nil, false, 1440, 4 * time.Minute},
		{20 * time.Second, param(8), true, 8, 4 * time.Minute},
		{time.Hour, param(1), false, 5, 12 * time.Hour},
		{time.Second, nil, true, 1, 0},
	} {
		if ht := times(at, c.interval, c.params).HSTimes(c.testing); ht.Period.Minutes != c.minutes || ht.Offset != c.offset {
			t.Errorf("%+v: %+v", c, ht)
		}
	}
}

// TestHSFetchRing: clients use the value that was current when their period began.
func TestHSFetchRing(t *testing.T) {
	d := ctor(t)
	for i := range d.relays {
		d.relays[i].flags |= FlagHSDir
	}
	old, young := &netdoc.SharedRandom{Value: [32]byte{1}}, &netdoc.SharedRandom{Value: [32]byte{2}}
	for _, c := range []struct {
		hour          int
		previous, cur *netdoc.SharedRandom
		want          func(hscrypto.Period) [32]byte
	}{
		{11, old, young, func(hscrypto.Period) [32]byte { return old.Value }},
		{13, old, young, func(hscrypto.Period) [32]byte { return young.Value }},
		{11, nil, young, hscrypto.DisasterSRV},
		{13, old, nil, hscrypto.DisasterSRV},
	} {
		at := time.Date(2026, 1, 1, c.hour, 0, 0, 0, time.UTC)
		d.pre.Lifetime = netdoc.Lifetime{ValidAfter: at, FreshUntil: at.Add(time.Hour)}
		d.pre.Params, d.pre.SharedRandPrevious, d.pre.SharedRandCurrent = nil, c.previous, c.cur
		ht := d.HSTimes(false)
		got, want := d.HSFetchRing(ht), d.HSRing(ht.Period, c.want(ht.Period))
		if len(got.nodes) != 10 || !slices.Equal(got.nodes, want.nodes) {
			t.Errorf("at %d o'clock: %d relays, in the order of another value", c.hour, len(got.nodes))
		}
		for _, n := range got.nodes {
			if d.HSFetchIndex(ht, n.relay) != n.index {
				t.Errorf("at %d o'clock: %v has another place on the ring", c.hour, n.relay)
			}
		}
	}
}

// TestHSTell: who is told gets each event, and nobody need be.
func TestHSTell(t *testing.T) {
	HSTell(nil).Event(HSEvent{})
	var got []HSEvent
	HSTell(func(e HSEvent) { got = append(got, e) }).Event(HSEvent{Action: HSFailed, Reason: "NOT_FOUND"})
	if len(got) != 1 || got[0].Reason != "NOT_FOUND" {
		t.Errorf("%+v", got)
	}
}

// TestHSRing compares the choice with one in slow words: of each replica, the
// relays with the least distance behind the descriptor's place.
func TestHSRing(t *testing.T) {
	d := ctor(t)
	ring := d.HSRing(hscrypto.Period{Num: 1, Minutes: 1440}, [32]byte{})
	with := 0
	for r := range d.All() {
		if r.Has(FlagHSDir) {
			with++
		}
	}
	if len(ring.nodes) != with {
		t.Errorf("%d relays on the ring, %d with the flag", len(ring.nodes), with)
	}
	for i := range d.relays {
		d.relays[i].flags |= FlagHSDir
	}
	for n := range uint64(50) {
		p, srv, key := hscrypto.Period{Num: n, Minutes: 1440}, [32]byte{byte(n)}, ident.Ed25519ID{byte(n), 7}
		ring := d.HSRing(p, srv)
		for _, spread := range []int{1, 3, 4, 20} {
			var want []Relay
			for replica := uint64(1); replica <= 2; replica++ {
				at := hscrypto.StoreIndex(key, replica, p)
				left := slices.Collect(d.All())
				slices.SortFunc(left, func(a, b Relay) int {
					x, y := hscrypto.NodeIndex(a.ID().Ed, srv, p), hscrypto.NodeIndex(b.ID().Ed, srv, p)
					if before := bytes.Compare(x[:], at[:]) < 0; before != (bytes.Compare(y[:], at[:]) < 0) {
						if before {
							return 1
						}
						return -1
					}
					return bytes.Compare(x[:], y[:])
				})
				left = slices.DeleteFunc(left, func(r Relay) bool { return slices.Contains(want, r) })
				want = append(want, left[:min(spread, len(left))]...)
			}
			if got := ring.Responsible(key, 2, spread); !slices.Equal(got, want) {
				t.Fatalf("period %d, spread %d: another choice", n, spread)
			}
		}
	}
	if got := (&HSRing{}).Responsible(ident.Ed25519ID{}, 2, 3); got != nil {
		t.Error(got)
	}
	if a, b, c := d.HSSpread(); a != 2 || b != 4 || c != 3 {
		t.Error(a, b, c)
	}
}
