package account

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
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

// holder is a circuit or link of a test, which frees what it holds when it is
// evicted.
type holder struct {
	*Account
	gone error
}

func open(above *Account, kind Kind, n int) *holder {
	h := new(holder)
	h.Account = above.Open(kind, func(cause error) {
		h.gone = cause
		h.Close()
	})
	h.Reserve(n)
	return h
}

func TestEvictsTheHeaviestOfTheHeaviest(t *testing.T) {
	m := New(1000)
	honest := m.Address(netip.MustParseAddr("192.0.2.1")).Open(Link, func(error) { t.Error("the honest link was evicted") })
	big := open(honest, Circuit, 300) // more than any of the attacker's
	attacker := m.Address(netip.MustParseAddr("192.0.2.66"))
	var circs []*holder
	for range 2 {
		link := attacker.Open(Link, func(error) { t.Error("a link was evicted for its circuits") })
		for range 8 {
			circs = append(circs, open(link, Circuit, 50))
		}
	}
	holders, bytes := m.reclaim()
	if big.gone != nil {
		t.Error("the honest circuit was evicted: others of one address held more together")
	}
	if m.Used() > 875 || bytes < 100 || holders != len(gone(circs)) {
		t.Errorf("%d bytes are left; %d holders with %d bytes were evicted, %d are gone", m.Used(), holders, bytes, len(gone(circs)))
	}
	if holders, _ := m.reclaim(); holders != 0 {
		t.Errorf("%d more were evicted under the bound", holders)
	}
	for _, c := range gone(circs) {
		if !fault.Is(c.gone, fault.Resource) {
			t.Errorf("the cause is %v", c.gone)
		}
	}
}

func gone(all []*holder) (out []*holder) {
	for _, h := range all {
		if h.gone != nil {
			out = append(out, h)
		}
	}
	return out
}

func TestEvictsALinkForWhatItHoldsItself(t *testing.T) {
	m := New(1000)
	addr := m.Address(netip.MustParseAddr("192.0.2.1"))
	link := open(addr, Link, 900)
	circ := open(link.Account, Circuit, 300)
	m.reclaim()
	if link.gone == nil || circ.gone != nil {
		t.Errorf("link: %v, circuit: %v", link.gone, circ.gone)
	}
}

func TestEvictsACircuitForItsStreams(t *testing.T) {
	m := New(1000)
	link := open(m.Address(netip.Addr{}), Link, 10)
	a, b := open(link.Account, Circuit, 100), open(link.Account, Circuit, 200)
	s := a.Open(Stream, nil)
	s.Reserve(900)
	m.reclaim()
	if a.gone == nil || b.gone != nil {
		t.Errorf("the circuit with the stream: %v, the other: %v", a.gone, b.gone)
	}
	s.Close()
	if m.Used() != 210 {
		t.Errorf("%d bytes are left", m.Used())
	}
}

// TestEvictsTheIdleFirst: those who give nothing back go before those who hold
// somewhat more and are at work.
func TestEvictsTheIdleFirst(t *testing.T) {
	m := New(1000)
	link := m.Address(netip.Addr{}).Open(Link, func(error) { t.Error("the link was evicted") })
	busy := open(link, Circuit, 200)
	var idle []*holder
	for range 9 {
		idle = append(idle, open(link, Circuit, 100))
	}
	ticks := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	told := make(chan int)
	wg.Go(func() { m.Run(ctx, ticks, func(holders int, _ int64) { told <- holders }) })
	if n := <-told; n == 0 || busy.gone == nil {
		t.Error("with no time gone by, the largest did not go first")
	}
	busy = open(link, Circuit, 190) // with 10 more the bound is reached, and not passed
	for range 5 {
		ticks <- time.Time{}
		busy.Reserve(10)
		busy.Release(10)
	}
	open(link, Circuit, 100)
	open(link, Circuit, 100)
	<-told
	if busy.gone != nil || len(gone(idle)) == 0 {
		t.Errorf("the busy one: %v; %d idle ones are gone", busy.gone, len(gone(idle)))
	}
	cancel()
	wg.Wait()
}

func TestGreedy(t *testing.T) {
	m := New(128 << 20)
	small, large := m.root.Open(Link, nil), m.root.Open(Link, nil)
	small.Reserve(2 << 20)
	large.Reserve(60 << 20)
	if small.Greedy() || large.Greedy() {
		t.Error("greedy, and half of it all is free")
	}
	large.Reserve(4 << 20)
	if small.Greedy() || !large.Greedy() {
		t.Errorf("small: %v, large: %v", small.Greedy(), large.Greedy())
	}
	m.SetBound(16 << 20)
	if least := m.root.Open(Link, nil); least.Greedy() || !small.Greedy() {
		t.Error("the share of a small bound")
	}
}

// TestWaitsForWhoGoes: what was told to go and takes its time is not made up for by
// others, until it has had some seconds.
func TestWaitsForWhoGoes(t *testing.T) {
	m := New(1000)
	told := 0
	slow := m.root.Open(Connection, func(error) { told++ })
	slow.Reserve(900)
	good := open(&m.root, Connection, 200)
	m.reclaim()
	good.Reserve(50)
	if m.reclaim(); told != 1 || good.gone != nil {
		t.Errorf("%d told; the other one: %v", told, good.gone)
	}
	m.second.Add(patience + 1)
	if m.reclaim(); good.gone == nil {
		t.Error("what does not go is waited for without end")
	}
	slow.Close()
	if len(m.told) != 0 || m.Used() != 0 {
		t.Errorf("%d bytes, %d told", m.Used(), len(m.told))
	}
}

// TestSparesBusyLinksAndIdleClients: many small circuits of one link are no reason to
// close the link, nor is a link that is open and idle, while others fill memory.
func TestSparesBusyLinksAndIdleClients(t *testing.T) {
	const links, clients, attackers = 4, 200, 20
	m := New(64 << 20)
	var spared, bad []*holder
	add := func(into *[]*holder, circuits, size int) {
		link := open(m.root.Open(Address, nil), Link, 57<<10)
		*into = append(*into, link)
		for range circuits {
			open(link.Account, Circuit, size)
		}
	}
	for range links {
		add(&spared, 1000, 3300)
	}
	for range clients {
		add(&spared, 4, 3300)
	}
	m.second.Add(60) // all of these are idle
	for i := 0; m.Used() <= m.Bound(); i++ {
		if i < attackers {
			add(&bad, 100, 3300)
			continue
		}
		open(bad[i%attackers].Account, Circuit, 3300)
	}
	for range 5 {
		m.reclaim()
		for m.Used() <= m.Bound() {
			for _, l := range bad {
				open(l.Account, Circuit, 3300)
			}
		}
	}
	if n := len(gone(spared)); n != 0 {
		t.Errorf("%d of %d links that do no harm were evicted", n, len(spared))
	}
}

// TestBlamesNobodyForWhatGoes: what an evicted circuit's streams hold until they
// close is not put down to its link, nor to the other circuits there.
func TestBlamesNobodyForWhatGoes(t *testing.T) {
	m := New(1 << 20)
	link := open(m.Address(netip.Addr{}), Link, 57<<10)
	honest := open(link.Account, Circuit, 3300)
	other := open(m.root.Open(Address, nil), Circuit, 20<<10)
	bad := open(link.Account, Circuit, 3300)
	stream := bad.Open(Stream, nil)
	stream.Reserve(2 << 20)
	m.reclaim()
	m.reclaim()
	if bad.gone == nil || link.gone != nil || honest.gone != nil || other.gone != nil {
		t.Errorf("gone: %v; link %v, honest %v, other %v", bad.gone, link.gone, honest.gone, other.gone)
	}
	stream.Close()
	m.leaving()
	if len(m.told) != 0 {
		t.Errorf("%d are remembered", len(m.told))
	}
}

// TestEvictsOnce has holders that do not free anything: each is told once, and
// reclaim ends.
func TestEvictsOnce(t *testing.T) {
	m := New(100)
	told := 0
	for range 40 {
		m.root.Open(Connection, func(error) { told++ }).Reserve(50)
	}
	m.Address(netip.Addr{}).Reserve(5000) // no holder can be evicted for these
	m.reclaim()
	m.reclaim()
	if told != 40 {
		t.Errorf("told %d times", told)
	}
}

func TestRun(t *testing.T) {
	m := New(1000)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan int64, 1)
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, nil, func(_ int, bytes int64) { told <- bytes }) })
	h := open(&m.root, Connection, 600)
	open(&m.root, Connection, 700)
	if bytes := <-told; bytes != 700 {
		t.Errorf("%d bytes were evicted", bytes)
	}
	m.SetBound(500) // what is there is too much now
	if bytes := <-told; bytes != 600 {
		t.Errorf("%d bytes were evicted", bytes)
	}
	cancel()
	wg.Wait()
	if h.gone == nil || m.Used() != 0 {
		t.Errorf("%d bytes are left", m.Used())
	}
	if holders, bytes := m.Evicted(); holders != 2 || bytes != 1300 {
		t.Errorf("%d holders with %d bytes in all", holders, bytes)
	}
}

func TestSeldom(t *testing.T) {
	var now time.Time
	var told []int64
	f := Seldom(func() time.Time { return now }, time.Minute, func(_ int, bytes int64) { told = append(told, bytes) })
	for range 5 {
		f(1, 10)
		now = now.Add(25 * time.Second)
	}
	if len(told) != 2 || told[0] != 10 || told[1] != 30 {
		t.Errorf("told of %v", told)
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
