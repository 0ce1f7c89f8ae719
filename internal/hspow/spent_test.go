package hspow

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/account"
)

func nonceOf(i int) *[16]byte {
	var n [16]byte
	binary.BigEndian.PutUint64(n[:], uint64(i))
	return &n
}

// Whatever comes, a proof never counts twice: it is known, or its effort is worth nothing.
// The account has what is held.
func TestSpentOnce(t *testing.T) {
	for _, most := range []int{1, 2, 7, 1000} {
		room := account.New(1 << 40).Address(netip.Addr{})
		s := NewSpent(room)
		s.most = most
		r := rand.New(rand.NewPCG(1, uint64(most)))
		for i := range 3000 {
			effort := 1 + r.Uint32N(50)
			if s.Has(nonceOf(i)) {
				t.Fatalf("proof %d is new", i)
			}
			if s.Worthless(effort) {
				continue
			}
			s.Add(nonceOf(i), effort)
			if !s.Has(nonceOf(i)) && !s.Worthless(effort) {
				t.Fatalf("proof %d of effort %d counts again", i, effort)
			}
			if n := s.n; n > most || room.Used() != int64(n*spentCost) {
				t.Fatalf("%d are kept, and %d bytes counted", n, room.Used())
			}
		}
		if s.Close(); room.Used() != 0 {
			t.Errorf("%d bytes are left", room.Used())
		}
	}
}

// Cheap proofs do not push out expensive ones.
func TestSpentKeepsExpensive(t *testing.T) {
	s := NewSpent(nil)
	s.most = 1000
	for i := range 100 {
		s.Add(nonceOf(i), 5000)
	}
	for i := range 100000 {
		if !s.Worthless(1 + uint32(i%3)) {
			s.Add(nonceOf(1000+i), 1+uint32(i%3))
		}
	}
	for i := range 100 {
		if !s.Has(nonceOf(i)) {
			t.Fatalf("proof %d is forgotten", i)
		}
	}
	if !s.Worthless(2) || s.Worthless(4) {
		t.Errorf("efforts up to %d are worth nothing", s.floor)
	}
}

// When memory is short, fewer are remembered, and some in any case.
func TestSpentShortMemory(t *testing.T) {
	m := account.New(1)
	s := NewSpent(m.Address(netip.Addr{}))
	for i := range leastSpent {
		s.Add(nonceOf(i), 1+uint32(i%100))
	}
	if s.n != leastSpent || s.floor != 0 {
		t.Fatalf("%d are kept, floor %d", s.n, s.floor)
	}
	s.Add(nonceOf(leastSpent), 200)
	if n := s.n; n > 2*leastSpent/3 || s.floor == 0 || !s.Has(nonceOf(leastSpent)) {
		t.Errorf("%d are kept, floor %d", n, s.floor)
	}
	if m.Used() != int64(s.n*spentCost) {
		t.Errorf("%d bytes are counted for %d", m.Used(), s.n)
	}
}

// When memory is full, it forgets proofs until it has its least share, and those that it
// forgets are worth nothing.
func TestSpentMakesRoom(t *testing.T) {
	const bound = 3 * leastSpent * spentCost
	m := account.New(bound)
	s := NewSpent(m.Address(netip.Addr{}))
	told := make(chan int64, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, nil, func(_ int, bytes int64) { told <- bytes }) })
	for i := range 5 * leastSpent / 2 {
		s.Add(nonceOf(i), 1+uint32(i%100))
	}
	if s.Floor() != 0 || m.Used() != int64(s.n)*spentCost {
		t.Fatalf("floor %d, %d bytes for %d", s.Floor(), m.Used(), s.n)
	}
	other := m.Address(netip.MustParseAddr("192.0.2.1"))
	other.Reserve(leastSpent * spentCost)
	if bytes := <-told; bytes < leastSpent*spentCost/2 {
		t.Errorf("%d bytes were evicted", bytes)
	}
	if used := m.Used(); used > bound || s.Floor() == 0 {
		t.Errorf("%d bytes are left of %d, floor %d", used, bound, s.Floor())
	}
	for i := range 5 * leastSpent / 2 {
		if e := 1 + uint32(i%100); !s.Has(nonceOf(i)) && !s.Worthless(e) {
			t.Fatalf("a proof of effort %d counts again", e)
		}
	}
	other.Reserve(bound) // nothing else can go
	if s.Close(); m.Used() != leastSpent*spentCost+bound {
		t.Fatalf("%d bytes are left", m.Used())
	}
	cancel()
	wg.Wait()
}

// To forget half a million proofs takes no time: it copies none. Others allocate meanwhile, too, so
// the best of several times counts.
func TestSpentForgetsAtOnce(t *testing.T) {
	least := uint64(math.MaxUint64)
	for range 3 {
		s := NewSpent(nil)
		s.most = 1 << 18
		for i := range s.most {
			s.Add(nonceOf(i), 1+uint32(i%40))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.Add(nonceOf(s.most), 100)
		runtime.ReadMemStats(&after)
		if s.Floor() == 0 || s.n > s.most/2+1 {
			t.Fatalf("floor %d, %d are kept", s.Floor(), s.n)
		}
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 1<<16 {
		t.Errorf("it allocates %d bytes", least)
	}
}

// What C tor's clients can do at most is always worth something.
func TestSpentFloorIsBounded(t *testing.T) {
	s := NewSpent(nil)
	s.most = 1000
	for i := range 5000 {
		s.Add(nonceOf(i), MaxSuggested+uint32(i%3000))
	}
	if s.Floor() != MaxSuggested-1 || s.Worthless(MaxSuggested) || s.n > s.most || s.n < s.most/4 {
		t.Errorf("floor %d, %d are kept", s.Floor(), s.n)
	}
}

// Classes are in the order of the efforts, without gaps, and narrow.
func TestClasses(t *testing.T) {
	from := uint64(0)
	for c := range classes {
		to := uint64(greatestOf(c))
		if classOf(uint32(from)) != c || classOf(uint32(to)) != c || to < from || from >= 16 && 8*(to-from) > from {
			t.Fatalf("class %d is from %d to %d", c, from, to)
		}
		from = to + 1
	}
	if from != 1<<32 {
		t.Errorf("the last class ends before %d", from)
	}
}

func BenchmarkSpent(b *testing.B) {
	s := NewSpent(nil)
	i := 0
	for b.Loop() {
		i++
		if !s.Has(nonceOf(i)) {
			s.Add(nonceOf(i), uint32(i))
		}
	}
}

// TestSpentFull: what is more than the least share is given back when proofs are forgotten because there are
// too many, efforts that are worth nothing are not kept, and after the end nothing is.
func TestSpentFull(t *testing.T) {
	room := account.New(1 << 40).Address(netip.Addr{})
	s := NewSpent(room)
	s.most = leastSpent + 100
	for i := range s.most {
		s.Add(nonceOf(i), 1+uint32(i%2))
	}
	s.Add(nonceOf(s.most), 2)
	if s.floor != 1 || s.n > s.most/2+1 || room.Used() != int64(s.n*spentCost) {
		t.Errorf("floor %d, %d are kept, %d bytes are counted", s.floor, s.n, room.Used())
	}
	n := s.n
	if s.Add(nonceOf(-1), 1); s.n != n || s.Has(nonceOf(-1)) || !s.Worthless(1) {
		t.Errorf("a proof that is worth nothing is kept: %d", s.n)
	}
	if s.Add(nonceOf(-2), 2); s.n != n+1 || !s.Has(nonceOf(-2)) || s.Worthless(2) {
		t.Errorf("a proof that is worth something is not kept: %d", s.n)
	}
	s.Close()
	s.Add(nonceOf(-3), 9)
	s.shrink()
	if s.n != 0 || s.Has(nonceOf(-3)) || room.Used() != 0 {
		t.Errorf("after the end %d are kept, %d bytes are counted", s.n, room.Used())
	}
}
