package account

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// TestReserveEvictsNobody: who counts bytes may hold locks that evicting needs, so holders
// are evicted by Run only.
func TestReserveEvictsNobody(t *testing.T) {
	m := New(1000)
	link := open(m.Address(netip.Addr{}), Link, 0)
	h := open(link.Account, Circuit, 2000)
	if err := link.Try(500); err == nil {
		t.Error("Try counts above the bound")
	}
	m.SetBound(900)
	if h.gone != nil || link.gone != nil {
		t.Fatal("a caller evicts")
	}
	told := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, nil, func(holders int, _ int64) { told <- holders }) })
	if n := <-told; n != 1 || h.gone == nil {
		t.Errorf("%d holders were evicted", n)
	}
	cancel()
	wg.Wait()
}

// TestWhatEvictingAdds: to close a holder may take memory, as for the messages that say so
// to others. If the total is above the bound for that, more holders are evicted, though
// nobody counts a byte later.
func TestWhatEvictingAdds(t *testing.T) {
	m := New(1000)
	addr := m.Address(netip.Addr{})
	other := open(addr, Link, 400)
	first := new(holder)
	first.Account = addr.Open(Link, func(cause error) {
		other.Reserve(800)
		first.gone = cause
		first.Close()
	})
	told := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, nil, func(holders int, _ int64) { told <- holders }) })
	first.Reserve(700)
	if n := <-told; n != 1 { // the other one follows at once
		t.Errorf("%d holders were evicted first", n)
	}
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("what was asked for meanwhile is forgotten")
	}
	cancel()
	wg.Wait()
	if first.gone == nil || other.gone == nil || m.Used() != 0 {
		t.Errorf("%d bytes are left", m.Used())
	}
}

// TestNextForWhoStays: if a holder that was told to go frees nothing, another one is evicted
// after some seconds, though nobody counts a byte.
func TestNextForWhoStays(t *testing.T) {
	m := New(1000)
	addr := m.Address(netip.Addr{})
	ticks, told := make(chan time.Time), make(chan int, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx, ticks, func(holders int, _ int64) { told <- holders }) })
	good := open(addr, Link, 200)
	stuck := addr.Open(Link, func(error) {})
	stuck.Reserve(1500)
	<-told
	for range patience + 2 {
		ticks <- time.Time{}
	}
	cancel()
	wg.Wait()
	if len(told) != 1 || good.gone == nil {
		t.Errorf("the other holder: %v", good.gone)
	}
}

// TestWeights: idleness weighs for what is more than a small share of the bound, by the
// seconds up to some bound; for a handshake, it weighs for every byte.
func TestWeights(t *testing.T) {
	m := New(1024 << 10) // of 1,024 shares
	const share, now = 1 << 10, 1000
	for _, c := range []struct {
		kind Kind
		held int
		idle uint32
		want int64
	}{
		{Link, share, 0, share},
		{Link, share, 20, share},
		{Link, 3 * share, 0, 3 * share},
		{Link, 3 * share, 10, 3*share + 10*2*share},
		{Link, 3 * share, maxIdle + 500, 3*share + maxIdle*2*share},
		{Circuit, 3 * share, 1, 5 * share},
		{Handshake, share, 0, share},
		{Handshake, share, 10, 11 * share},
		{Handshake, share, 500, (1 + maxIdle) * share},
	} {
		a := m.root.Open(c.kind, nil)
		a.Reserve(c.held)
		a.active.Store(now - c.idle)
		if got := a.weight(now); got != c.want {
			t.Errorf("%v: %d", c, got)
		}
	}
}
