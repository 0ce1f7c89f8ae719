package pool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

// run runs a test of a pool on virtual time.
func run(t *testing.T, cfg Config, b *fakeBuilder, f func(p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := New(cfg, b)
		defer p.Close()
		f(p)
	})
}

func TestReuseByIsolation(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		a1, a2, other := acquire(t, p, to(443, key("a"))), acquire(t, p, to(80, key("a"))), acquire(t, p, to(443, key("b")))
		if a1.Circuit != a2.Circuit {
			t.Error("one identity, two circuits")
		}
		if a1.Circuit == other.Circuit {
			t.Error("two identities share a circuit")
		}
		s := p.Status()
		if s.Launched != 2 || s.Streams != 3 || s.Dirty != 2 || s.Reused != 1 {
			t.Errorf("%+v", s)
		}
		for _, l := range []*Lease{a1, a2, other, other} {
			l.Release()
		}
		if s := p.Status(); s.Streams != 0 {
			t.Errorf("%d streams after the last release", s.Streams)
		}
	})
}

func TestConcurrentRequestsShareALaunch(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]map[PooledCircuit]bool{}
		for i := range 100 {
			user := fmt.Sprint(i % 4)
			wg.Go(func() {
				l := acquire(t, p, to(443, key(user)))
				defer l.Release()
				mu.Lock()
				defer mu.Unlock()
				if seen[user] == nil {
					seen[user] = map[PooledCircuit]bool{}
				}
				seen[user][l.Circuit] = true
			})
		}
		wg.Wait()
		all := map[PooledCircuit]bool{}
		for _, cs := range seen {
			for c := range cs {
				all[c] = true
			}
			if len(cs) != 1 {
				t.Errorf("one identity on %d circuits", len(cs))
			}
		}
		if len(all) != 4 || b.launched() != 4 {
			t.Errorf("%d circuits, %d launches for four identities", len(all), b.launched())
		}
	})
}

func TestDirtiness(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		first := acquire(t, p, to(443, key("a")))
		time.Sleep(9 * time.Minute)
		if l := acquire(t, p, to(443, key("a"))); l.Circuit != first.Circuit {
			t.Error("a new circuit after nine minutes")
		} else {
			l.Release()
		}
		time.Sleep(time.Minute)
		l := acquire(t, p, to(443, key("a")))
		if l.Circuit == first.Circuit {
			t.Error("a circuit took a stream after MaxCircuitDirtiness")
		}
		c := first.Circuit.(*fakeCircuit)
		if c.closed() {
			t.Error("closed with a stream on it")
		}
		first.Release()
		synctest.Wait()
		if !c.closed() {
			t.Error("not closed with its last stream")
		}
		l.Release()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Dirty+s.Clean+s.Retired != 0 {
			t.Errorf("left after their time: %+v", s)
		}
	})
}

// TestKeepAlive: each stream with KeepAlive begins the time of its circuit again; others
// do not.
func TestKeepAlive(t *testing.T) {
	for _, keep := range []bool{true, false} {
		b := &fakeBuilder{}
		run(t, bare(), b, func(p *Pool) {
			k := key("a")
			k.Auth, k.KeepAlive = isolation.NewAuth("user"), keep
			first := acquire(t, p, to(443, k))
			defer first.Release()
			time.Sleep(9 * time.Minute)
			acquire(t, p, to(443, k)).Release()
			time.Sleep(9 * time.Minute)
			l := acquire(t, p, to(443, k))
			defer l.Release()
			if same := l.Circuit == first.Circuit; same != keep {
				t.Errorf("KeepAlive %v: the same circuit after 18 minutes: %v", keep, same)
			}
		})
	}
}

func TestRetire(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		l.Retire()
		if n := acquire(t, p, to(443, key("a"))); n.Circuit == l.Circuit {
			t.Error("a retired circuit took a stream")
		}
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("closed under its stream")
		}
		l.Release()
		synctest.Wait()
		if !l.Circuit.(*fakeCircuit).closed() {
			t.Error("not closed when its stream ended")
		}
	})
}

func TestNewIdentity(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.ports = []uint16{s.Dests[0].Port}
		return c, nil
	}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		time.Sleep(2 * time.Second)
		got := make(chan *Lease)
		go func() { got <- acquire(t, p, to(25, key("other"))) }()
		synctest.Wait() // no circuit that is there has a way to port 25
		old := b.launched()
		b.mu.Lock()
		clean := append([]*fakeCircuit(nil), b.circuits...)
		b.mu.Unlock()
		p.NewIdentity()
		n := acquire(t, p, to(443, key("a")))
		for _, c := range clean {
			if n.Circuit == PooledCircuit(c) {
				t.Error("a circuit of the old identity was used")
			}
			if PooledCircuit(c) != l.Circuit && !c.closed() {
				t.Error("a clean circuit outlived its identity")
			}
		}
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("an open stream was cut off")
		}
		w := <-got
		if n := binary.BigEndian.Uint32(w.Circuit.(*fakeCircuit).exit[:]); n <= uint32(old) || w.Circuit.(*fakeCircuit).closed() {
			t.Errorf("a request that waited got an old circuit: number %d, and %d were launched before", n, old)
		}
	})
}

// A launch that nobody waits for gets none beside it when it is slow. (It may be
// replaced: a slow one does not count as built ahead.)
func TestSlowPreemptiveLaunchIsNotHedged(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) { s.Slow(); return circuit(n, s), nil }
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(time.Minute)
		if s := p.Status().Totals; s.Hedged != 0 || s.Preemptive != s.Launched || s.Launched < 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRequestJoinsAPreemptiveLaunch(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		a, c := acquire(t, p, to(443, key("a"))), acquire(t, p, to(443, key("b")))
		if time.Since(start) != 500*time.Millisecond || a.Circuit == c.Circuit {
			t.Errorf("after %v", time.Since(start))
		}
	})
}

func TestBoundedLaunches(t *testing.T) {
	cfg := bare()
	cfg.MaxClientCircuitsPending = 4
	b := &fakeBuilder{took: time.Second}
	run(t, cfg, b, func(p *Pool) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { acquire(t, p, to(443, key(fmt.Sprint(i)))) })
		}
		for range 5 {
			synctest.Wait()
			if s := p.Status(); s.Launching != 4 {
				t.Errorf("%d launches at once", s.Launching)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
		if b.launched() != 20 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

// TestSetPending: a greater bound on launches counts at once for requests that wait, and a smaller
// one for launches from then on.
func TestSetPending(t *testing.T) {
	cfg := bare()
	cfg.MaxClientCircuitsPending = 1
	run(t, cfg, &fakeBuilder{took: time.Second}, func(p *Pool) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { acquire(t, p, to(443, key(fmt.Sprint(i)))) })
		}
		expect := func(want int) {
			t.Helper()
			synctest.Wait()
			if s := p.Status(); s.Launching != want {
				t.Errorf("%d launches at once, not %d", s.Launching, want)
			}
		}
		expect(1)
		p.Set(Live{MaxClientCircuitsPending: 3})
		expect(3)
		p.Set(Live{MaxClientCircuitsPending: 2})
		expect(3) // those that are under way go on
		time.Sleep(time.Second)
		expect(2)
		p.Set(Live{})
		expect(32)
		wg.Wait()
	})
}

func TestCancelledRequestLeavesASpare(t *testing.T) {
	b := &fakeBuilder{took: 2 * time.Second}
	run(t, bare(), b, func(p *Pool) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		_, err := p.Acquire(ctx, to(443, key("a")))
		if !errors.Is(err, context.Canceled) || !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		if l := acquire(t, p, to(443, key("b"))); b.launched() != 1 || l == nil {
			t.Error("the spare circuit was not used")
		}
		if _, err := p.Acquire(ctx, to(443, key("a"))); !errors.Is(err, context.Canceled) {
			t.Errorf("with a dead context: %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	b := &fakeBuilder{took: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{}, b)
		got := make(chan error)
		go func() {
			_, err := p.Acquire(context.Background(), to(443, key("a")))
			got <- err
		}()
		time.Sleep(time.Second)
		p.Close()
		p.Close()
		if err := <-got; !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
		if _, err := p.Acquire(context.Background(), to(443, key("a"))); !fault.Is(err, fault.Closed) || !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBuilder{}
		p := New(Config{}, b)
		l := acquire(t, p, to(443, key("a")))
		p.Close()
		if !l.Circuit.(*fakeCircuit).closed() {
			t.Error("a circuit outlived the pool")
		}
		l.Release()
	})
}
