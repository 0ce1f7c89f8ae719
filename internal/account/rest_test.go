package account

import (
	"net/netip"
	"testing"
)

// TestEvictsRestingLinksFirst: links that nobody uses go before others that hold far more,
// those that rest for the longest time first, but not one that has only just begun to rest.
func TestEvictsRestingLinksFirst(t *testing.T) {
	m := New(1000)
	link := func(i byte, n int) *holder { return open(m.Address(netip.AddrFrom4([4]byte{192, 0, 2, i})), Link, n) }
	busy, fresh := link(1, 560), link(2, 90)
	var old []*holder
	for i := range 4 {
		old = append(old, link(byte(3+i), 90))
		old[i].Rest(true)
		m.second.Add(1)
	}
	back := link(9, 90)
	back.Rest(true)
	back.Rest(false) // it got a circuit again
	m.second.Add(maxIdle)
	fresh.Rest(true)
	if holders, bytes := m.reclaim(); holders != 3 || bytes != 270 {
		t.Errorf("%d holders with %d bytes were evicted", holders, bytes)
	}
	for i, h := range old {
		if gone := h.gone != nil; gone != (i < 3) {
			t.Errorf("resting link %d is gone: %v", i, gone)
		}
	}
	if busy.gone != nil || fresh.gone != nil || back.gone != nil {
		t.Error("a link that does not rest was evicted:", busy.gone, fresh.gone, back.gone)
	}
	busy.Reserve(700)
	m.reclaim()
	if old[3].gone == nil || busy.gone == nil || fresh.gone != nil {
		t.Error("not what rests, and then what holds the most:", old[3].gone, busy.gone, fresh.gone)
	}
}
