package hspow

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
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
			if n := len(s.efforts); n > most || room.Used() != int64(n*spentCost) {
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
	if len(s.efforts) != leastSpent || s.floor != 0 {
		t.Fatalf("%d are kept, floor %d", len(s.efforts), s.floor)
	}
	s.Add(nonceOf(leastSpent), 200)
	if n := len(s.efforts); n > 2*leastSpent/3 || s.floor == 0 || !s.Has(nonceOf(leastSpent)) {
		t.Errorf("%d are kept, floor %d", n, s.floor)
	}
	if m.Used() != int64(len(s.efforts)*spentCost) {
		t.Errorf("%d bytes are counted for %d", m.Used(), len(s.efforts))
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
