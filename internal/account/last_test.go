package account

import (
	"net/netip"
	"testing"
)

// TestLastGoLast: a crowd of strangers fills the memory. Their links go, whatever the links of relays hold
// themselves, and however long these have rested; only when no stranger is left, relays' links go too.
func TestLastGoLast(t *testing.T) {
	const strangers, relays, size = 40, 4, 20 << 10
	m := New((strangers + relays) * size * 2)
	from := func(i int) *Account { return m.Address(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	var listed, crowd []*holder
	for i := range relays {
		l := open(from(i), Link, size+4<<10) // more than any stranger's
		l.Last(true)
		l.Rest(i%2 == 0)
		if i%2 > 0 {
			open(l.Account, Circuit, 3300) // the least of what is there
		}
		listed = append(listed, l)
	}
	for i := range strangers {
		crowd = append(crowd, open(from(relays+i), Link, size))
	}
	m.second.Add(2 * maxIdle)
	for step := int64(1); ; step++ {
		m.SetBound(m.Used() - 1)
		m.reclaim()
		if n := len(gone(listed)); n > 0 && len(gone(crowd)) < strangers {
			t.Fatalf("step %d: %d links of relays are gone, and %d of strangers", step, n, len(gone(crowd)))
		}
		if len(gone(crowd)) == strangers {
			break
		}
		if n := len(gone(crowd)); listed[1].children == nil {
			t.Fatalf("step %d: a relay's circuit is gone, and %d of %d strangers' links", step, n, strangers)
		}
	}
	m.SetBound(1)
	m.reclaim()
	if n := len(gone(listed)); n != relays {
		t.Errorf("%d links of relays are gone, although nobody else is left", n)
	}
}

// TestLastIsTakenBack: a relay that is not listed any more is a stranger.
func TestLastIsTakenBack(t *testing.T) {
	m := New(1000)
	a, b := open(m.Address(netip.MustParseAddr("192.0.2.1")), Link, 600), open(m.Address(netip.MustParseAddr("192.0.2.2")), Link, 500)
	a.Last(true)
	a.Last(false)
	m.reclaim()
	if a.gone == nil || b.gone != nil {
		t.Errorf("%v, %v", a.gone, b.gone)
	}
	var none *Account
	none.Last(true) // counts nothing, and says nothing
}

// TestCircuitsOfTheLast: who fills the memory through a relay loses that, and the relay's link stays.
func TestCircuitsOfTheLast(t *testing.T) {
	m := New(100 << 10)
	link := open(m.Address(netip.MustParseAddr("192.0.2.1")), Link, 20<<10)
	link.Last(true)
	full, other := open(link.Account, Circuit, 90<<10), open(link.Account, Circuit, 3300)
	stranger := open(m.Address(netip.MustParseAddr("192.0.2.2")), Link, 20<<10)
	m.reclaim()
	if full.gone == nil || other.gone != nil || link.gone != nil || stranger.gone != nil {
		t.Errorf("full %v, other %v, link %v, stranger %v", full.gone, other.gone, link.gone, stranger.gone)
	}
}

// TestSparingEnds: what was spared counts again when the choice is made.
func TestSparingEnds(t *testing.T) {
	m := New(1000)
	a := m.Address(netip.Addr{})
	defer a.Close()
	l := a.Open(Link, func(error) {})
	defer l.Close()
	l.Last(true)
	l.Reserve(100)
	other := a.Open(Link, func(error) {})
	defer other.Close()
	other.Reserve(200)
	if chosen, _ := m.choose(10); len(chosen) != 1 || chosen[0] != other {
		t.Errorf("%d are chosen", len(chosen))
	}
	if m.sparing || len(m.spared) > 0 || l.held()+m.going[l] != 100 {
		t.Errorf("sparing %v, %d are spared, %d bytes are held", m.sparing, len(m.spared), l.held())
	}
}

// TestSparedCountsForNothing: while the links of Last are spared, neither they nor their addresses are the
// heaviest for what the links hold themselves.
func TestSparedCountsForNothing(t *testing.T) {
	m := New(1 << 20)
	link := open(m.Address(netip.MustParseAddr("192.0.2.1")), Link, 5000)
	link.Last(true)
	small, large := open(link.Account, Circuit, 1000), open(link.parent, Link, 2000)
	if chosen, _ := m.choose(1); len(chosen) != 1 || chosen[0] != large.Account || small.gone != nil {
		t.Errorf("%d are chosen, not the one that holds the most without what is spared", len(chosen))
	}
}

// TestRestsLongEnough: a link has rested for long enough when the time is over, and not before.
func TestRestsLongEnough(t *testing.T) {
	m := New(1 << 20)
	link := open(m.Address(netip.MustParseAddr("192.0.2.1")), Link, 100)
	link.Rest(true)
	for _, c := range []struct {
		more uint32
		want int
	}{{maxIdle - 1, 0}, {1, 1}} {
		m.second.Add(c.more)
		m.mu.Lock()
		got := len(m.root.longestRestingLocked(1))
		m.mu.Unlock()
		if got != c.want {
			t.Errorf("%d rest after %d seconds", got, m.second.Load())
		}
	}
}
