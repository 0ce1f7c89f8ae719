package account

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"github.com/chivenet/chive/internal/fault"
)

func TestCountsUpToTheRoot(t *testing.T) {
	m := New(1000)
	addr := m.Address(netip.MustParseAddr("192.0.2.1"))
	link := addr.Open(Link, func(error) {})
	circ := link.Open(Circuit, func(error) {})
	circ.Reserve(100)
	link.Reserve(20)
	for _, x := range []struct {
		a    *Account
		want int64
	}{{circ, 100}, {link, 120}, {addr, 120}, {&m.root, 120}} {
		if got := x.a.Used(); got != x.want {
			t.Errorf("%v holds %d bytes, not %d", x.a.kind, got, x.want)
		}
	}
	circ.Release(60)
	link.Close() // before what is below it
	if m.Used() != 40 {
		t.Errorf("%d bytes are left, not the circuit's 40", m.Used())
	}
	circ.Close()
	circ.Close()
	circ.Reserve(7)
	circ.Release(3)
	addr.Close()
	if m.Used() != 0 {
		t.Errorf("%d bytes are left", m.Used())
	}
}

func TestAddressesAreShared(t *testing.T) {
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%a", "fe80::2%b", true},
	} {
		m := New(1000)
		a, b := m.Address(netip.MustParseAddr(x.a)), m.Address(netip.MustParseAddr(x.b))
		if same := a == b; same != x.same {
			t.Errorf("%s and %s share an account: %v", x.a, x.b, same)
		}
		b.Reserve(5)
		a.Close()
		if m.Used() != 5 {
			t.Errorf("%s: %d bytes are left after the first Close, not 5", x.b, m.Used())
		}
		b.Close()
		if m.Used() != 0 || len(m.addresses) != 0 {
			t.Errorf("%s: %d bytes and %d addresses are left", x.b, m.Used(), len(m.addresses))
		}
	}
	m := New(1000)
	if first := m.Address(netip.Addr{}); first != m.Address(netip.Addr{}) {
		t.Error("unknown addresses have accounts of their own")
	}
}

func TestTryRefusesOverTheBound(t *testing.T) {
	m := New(1000)
	a := m.root.Open(Upload, nil)
	if err := a.Try(1000); err != nil {
		t.Fatal(err)
	}
	if err := a.Try(1); !fault.Is(err, fault.Resource) {
		t.Errorf("a byte too many: %v", err)
	}
	if m.Used() != 1000 {
		t.Errorf("%d bytes are counted", m.Used())
	}
	a.Close()
	if err := a.Try(1); !fault.Is(err, fault.Closed) {
		t.Errorf("on a closed account: %v", err)
	}
}

func TestNil(t *testing.T) {
	var m *Memory
	m.SetBound(1)
	a := m.Address(netip.Addr{}).Open(Link, nil)
	a.Reserve(1)
	if err := a.Try(1); err != nil {
		t.Error(err)
	}
	a.Release(1)
	a.Close()
	if m.Used()+a.Used()+m.Bound() != 0 {
		t.Error("nil counts")
	}
}

// TestRace has accounts reserved, released, opened, closed and evicted at the
// same time: in the end nothing is left.
func TestRace(t *testing.T) {
	m := New(50_000)
	ctx, cancel := context.WithCancel(t.Context())
	var run, wg sync.WaitGroup
	run.Go(func() { m.Run(ctx, nil, nil) })
	for i := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 300 {
				addr := m.Address(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(3))}))
				var link *Account
				link = addr.Open(Link, func(error) { link.Close() })
				var circ *Account
				circ = link.Open(Circuit, func(error) { circ.Close() })
				for range r.IntN(20) {
					circ.Reserve(r.IntN(1000))
					if n := r.IntN(1000); link.Try(n) == nil {
						link.Release(n)
					}
				}
				circ.Close()
				link.Close()
				addr.Close()
			}
		})
	}
	wg.Wait()
	cancel()
	run.Wait()
	if m.Used() != 0 || len(m.addresses) != 0 || m.root.children != nil {
		t.Errorf("%d bytes, %d addresses and accounts at %p are left", m.Used(), len(m.addresses), m.root.children)
	}
}

// TestAccountIsSmall: each circuit and each stream has an account. 80 is a size of the
// allocator.
func TestAccountIsSmall(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("pointers are shorter here")
	}
	if n := unsafe.Sizeof(Account{}); n > 80 {
		t.Errorf("an account takes %d bytes, more than 80", n)
	}
}

// TestCloseInAnyOrder: whichever of the accounts below one closes first, the others stay
// below it.
func TestCloseInAnyOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := New(0)
		var open []*Account
		for range 200 {
			if i := r.IntN(20); i < len(open) {
				open[i].Close()
				open[i].Close()
				open = slices.Delete(open, i, i+1)
			} else {
				open = append(open, m.root.Open(Link, func(error) {}))
			}
			below, _ := m.root.belowLocked()
			if len(below) != len(open) {
				t.Fatalf("%d accounts, %d are open", len(below), len(open))
			}
			for _, a := range open {
				if !slices.Contains(below, a) {
					t.Fatal("an open account is not below its parent")
				}
			}
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	m := New(1 << 30)
	addr := m.Address(netip.Addr{})
	b.RunParallel(func(pb *testing.PB) {
		c := addr.Open(Link, nil).Open(Circuit, nil)
		for pb.Next() {
			c.Reserve(16 << 10)
			c.Release(16 << 10)
		}
	})
}
