package account

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

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
