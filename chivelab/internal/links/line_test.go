package links

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLine: in virtual time packets come out when the pipe says, whatever else is on the line, and
// nothing is late.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := Rules{Rate: 1_000_000, Delay: 20 * ms, Jitter: Uniform, Spread: 15 * ms, Loss: .1, Reorder: .1, ReorderBy: 30 * ms, Queue: 20_000, Discipline: CoDel}
		steps := []Step{{500 * ms, Rules{Rate: 4_000_000, Delay: 5 * ms}}, {time.Second, rules}}
		type got struct {
			id uint64
			at time.Duration
		}
		base, all := time.Now(), []got{}
		l, err := newLine(rules, steps, 3, func(b []byte) { all = append(all, got{binary.BigEndian.Uint64(b), time.Since(base)}) }, newTimers)
		if err != nil {
			t.Fatal(err)
		}
		var packets []packet
		for i := range 1000 {
			size := 8 + i%700
			packets = append(packets, packet{time.Since(base), size})
			b := make([]byte, size)
			binary.BigEndian.PutUint64(b, uint64(i))
			l.Send(b)
			time.Sleep(time.Duration(i%5) * ms)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var want []got
		var counts [Fates]uint64
		for _, o := range through(t, rules, steps, 3, packets, always) {
			counts[o.Fate]++
			if o.Fate == Passed {
				want = append(want, got{o.ID, o.At})
			}
		}
		slices.SortStableFunc(want, func(a, b got) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return int(a.id) - int(b.id)
		})
		if !slices.Equal(all, want) {
			t.Errorf("%d packets, want %d, or at other times", len(all), len(want))
		}
		for f := range Fates {
			if l.Count(f) != counts[f] {
				t.Errorf("fate %d: %d, want %d", f, l.Count(f), counts[f])
			}
		}
		if late := l.Lateness(); late.Packets != counts[Passed] || late.Worst != 0 || late.Mean() != 0 {
			t.Error(late)
		}
		if l.bytes != 0 || len(l.held) != 0 {
			t.Errorf("%d bytes in %d packets are still held", l.bytes, len(l.held))
		}
		l.Close()
		l.Send(make([]byte, 100))
		if l.bytes != 0 {
			t.Error("a closed line takes packets")
		}
	})
}

// TestLate: a receiver that holds the line up makes packets late; the result is refused then, and
// only then.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold time.Duration
		l, err := newLine(Rules{Delay: 10 * ms}, nil, 0, func([]byte) { time.Sleep(hold) }, newTimers)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, c := range []struct {
			hold time.Duration
			far  float64
		}{{FarLate, 0}, {FarLate + 1, .25}} { // of four packets, one waits longer
			synctest.Wait()
			hold = c.hold
			l.Send(make([]byte, 100))
			l.Send(make([]byte, 100))
			time.Sleep(time.Second)
			synctest.Wait()
			got := l.Lateness()
			if got.Worst != c.hold || got.FarShare() != c.far {
				t.Errorf("%v, %v, want %v, %v", got.Worst, got.FarShare(), c.hold, c.far)
			}
			err := Bound{Mean: time.Second, Far: .2}.Refuse(got)
			if (err != nil) != (c.far > .2) || err != nil && !errors.Is(err, ErrLate) {
				t.Errorf("%v: %v", got, err)
			}
		}
		mean := l.Lateness().Mean()
		for _, c := range []struct {
			bound time.Duration
			late  bool
		}{{mean, false}, {mean - 1, true}} {
			if err := (Bound{Mean: c.bound, Far: 1}).Refuse(l.Lateness()); (err != nil) != c.late {
				t.Errorf("mean %v, bound %v: %v", mean, c.bound, err)
			}
		}
		if (Lateness{}).Mean() != 0 || (Lateness{}).FarShare() != 0 || (Bound{}).Refuse(Lateness{}) != nil {
			t.Error("without packets, something is late")
		}
		if (Bound{}).Refuse(Lateness{Overrun: 1}) == nil {
			t.Error("packets without memory are not looked at")
		}
	})
}

// TestOverrun: a line holds only so much, and says that there was more.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLine(Rules{Delay: time.Hour, MTU: maxMTU}, nil, 0, func([]byte) {}, newTimers)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		b := make([]byte, 1<<15)
		for range maxHeld/len(b) + 2 {
			l.Send(b)
		}
		if got := l.Lateness().Overrun; got != 2 {
			t.Errorf("%d packets had no memory, want 2", got)
		}
	})
}

// packetTo is an IP packet of which only the addresses matter.
func packetTo(to netip.Addr) []byte {
	if to.Is4() {
		b := make([]byte, 20)
		b[0] = 0x45
		copy(b[16:], to.AsSlice())
		return b
	}
	b := make([]byte, 40)
	b[0] = 0x60
	copy(b[24:], to.AsSlice())
	return b
}

// TestNet: a packet goes through the sender's up and the receiver's down. The bubble tells of goroutines that
// stay after Close.
func TestNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNet(1)
		n.clock = newTimers
		base := time.Now()
		var mu sync.Mutex
		came := map[string][]time.Duration{}
		attach := func(addr string, up, down time.Duration) *Port {
			p, err := n.Attach(netip.MustParseAddr(addr), Access{Direction{Rules: Rules{Delay: up}}, Direction{Rules: Rules{Delay: down}}},
				func([]byte) { mu.Lock(); came[addr] = append(came[addr], time.Since(base)); mu.Unlock() })
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a, b := attach("10.0.0.1", 1*ms, 10*ms), attach("10.0.0.2", 100*ms, 1000*ms)
		six := attach("fd00::1", 0, 3*ms)
		a.Send(packetTo(netip.MustParseAddr("10.0.0.2")))
		b.Send(packetTo(netip.MustParseAddr("10.0.0.1")))
		b.Send(packetTo(netip.MustParseAddr("fd00::1")))
		b.Send(packetTo(netip.MustParseAddr("10.0.0.3")))
		b.Send([]byte{0x45})
		b.Send(nil)
		if _, err := n.Attach(netip.MustParseAddr("10.0.0.2"), Access{}, nil); err == nil {
			t.Error("two hosts have one address")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for addr, want := range map[string]time.Duration{"10.0.0.2": 1001 * ms, "10.0.0.1": 110 * ms, "fd00::1": 103 * ms} {
			if got := came[addr]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %v, want %v", addr, got, want)
			}
		}
		if a.Up().Count(Passed) != 1 || b.Down().Count(Passed) != 1 {
			t.Error("the lines count wrong")
		}
		packets := n.Lateness().Packets
		six.Close()
		if got := n.Lateness().Packets; got != packets {
			t.Errorf("%d packets in the lateness, and %d after a host went", packets, got)
		}
		if _, err := n.Attach(netip.MustParseAddr("fd00::1"), Access{}, func([]byte) {}); err != nil {
			t.Error("the address is not free:", err)
		}
		n.Close()
		if _, err := n.Attach(netip.MustParseAddr("10.0.0.9"), Access{}, nil); err == nil {
			t.Error("a closed network takes hosts")
		}
	})
}
