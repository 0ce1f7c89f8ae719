package hsservice

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
)

// spender sends proofs of an effort for the present seed, each once.
type spender struct {
	s     *Service
	now   time.Time
	nonce uint32
}

func (x *spender) spend(t *testing.T, effort uint32, n int) {
	t.Helper()
	free := rate.NewLimiter(rate.Inf, 0)
	seed := x.s.work.schedule.At(x.now)
	for range n {
		x.nonce++
		p := cell.PoW{Effort: effort, SeedHead: [4]byte(seed.Value[:4]), Solution: [16]byte{proofGood}}
		binary.BigEndian.PutUint32(p.Nonce[:], x.nonce)
		if _, err := x.s.work.effortOf([]cell.Ext{p.Ext()}, &ident.Ed25519ID{12}, x.now, free); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSuggestedIsWorthSomething: an attacker that spends so many proofs of the suggested effort
// that the service forgets them makes the service suggest more: a client that does what is
// suggested is always worth more than one that does nothing. With another seed the effort
// can fall again.
func TestSuggestedIsWorthSomething(t *testing.T) {
	m := account.New(1) // memory is short: the floor rises soon
	s, _ := asksForWork(t, nowhere{}, m)
	x := spender{s: s, now: time.Now()}
	s.work.control.Came(20)
	s.work.control.Served(true)
	s.work.control.Update(x.now, 20, false)
	s.work.control.Update(x.now.Add(hspow.ControlEvery), 20, false)
	first := s.work.suggested()
	if first < 20 {
		t.Fatalf("effort %d", first)
	}
	before := s.work.offer(nil, first, x.now)
	worth := func() uint32 {
		before = s.work.offer(before, s.work.suggested(), x.now)
		effort := before.Effort // what clients know
		x.nonce++
		p := cell.PoW{Effort: effort, Solution: [16]byte{proofGood}}
		seed := s.work.schedule.At(x.now)
		p.SeedHead = [4]byte(seed.Value[:4])
		binary.BigEndian.PutUint32(p.Nonce[:], x.nonce)
		got, err := s.work.effortOf([]cell.Ext{p.Ext()}, &ident.Ed25519ID{12}, x.now, s.opening)
		if err != nil || effort == 0 {
			t.Errorf("effort %d: %v", effort, err)
		}
		return got
	}
	for _, effort := range []uint32{first, first + 7, 3 * first} {
		x.spend(t, effort, 1<<16+1)
		if worth() == 0 {
			t.Errorf("after many proofs of effort %d, the suggested effort %d counts for nothing", effort, before.Effort)
		}
	}
	x.now = s.work.schedule.At(x.now).Until
	for range 3 {
		x.now = x.now.Add(hspow.ControlEvery)
		s.work.tend(x.now)
	}
	if low := s.work.suggested(); low == 0 || low > 3*first {
		t.Errorf("with another seed and without a queue, it suggests %d", low)
	}
}

// TestSpentMakesRoom: when memory is short, what a service remembers of proofs makes room
// for connections, instead of having these closed.
func TestSpentMakesRoom(t *testing.T) {
	const bound = 16 << 20
	m := account.New(bound)
	s, _ := asksForWork(t, nowhere{}, m)
	x := spender{s: s, now: time.Now()}
	x.spend(t, 5, 100_000)
	x.spend(t, 50, 300_000)
	told := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		m.Run(ctx, nil, func(int, int64) { told <- struct{}{} })
	})
	before := m.Used()
	circuits := m.Address(netip.MustParseAddr("192.0.2.1"))
	var closed []error
	for range 64 {
		c := circuits.Open(account.Circuit, func(err error) { closed = append(closed, err) })
		c.Reserve(bound / 8 / 64)
	}
	more := circuits.Open(account.Circuit, func(err error) { closed = append(closed, err) })
	more.Reserve(int(bound - m.Used() + 1))
	<-told
	cancel()
	wg.Wait()
	if len(closed) > 0 || m.Used() > bound {
		t.Errorf("%d circuits are closed, and %d bytes are left; the proofs were %d", len(closed), m.Used(), before)
	}
	if s.work.suggested() != 0 {
		t.Error("nobody waits, and an effort is suggested")
	}
	seed := s.work.schedule.At(x.now)
	if floor := s.work.spent[seed.Number].Floor(); floor < 5 {
		t.Errorf("efforts up to %d are worth nothing", floor)
	}
}
