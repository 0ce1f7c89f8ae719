package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/path"
)

// asCommon is a configuration whose pool looks like C tor's, with three sets.
func asCommon(learning time.Duration) Config {
	return Config{Rand: rand.New(rand.NewPCG(1, 2)), Common: &Common{
		Sets:     func() (int, int) { return 3, 10 },
		Learning: func() time.Duration { return learning },
		Server:   func() bool { return false },
	}}
}

// inSet counts the orders for sets, for exits and for onion services.
func (b *fakeBuilder) orders() (sets, exits, internal int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.specs {
		switch {
		case s.Set:
			sets++
		case len(s.Dests) > 0:
			exits++
		default:
			internal++
		}
	}
	return sets, exits, internal
}

// TestCommonStart: nothing is built before the first second. Then come three sets at once, with one
// circuit to an exit, as no set is there yet, and after that an internal circuit a second.
func TestCommonStart(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	cfg := asCommon(3 * time.Minute)
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if n := b.launched(); n != 0 {
			t.Errorf("%d circuits in the first second", n)
		}
		for i, want := range [][3]int{{3, 1, 0}, {3, 1, 1}, {3, 1, 2}, {3, 1, 3}, {3, 1, 3}, {3, 1, 3}} {
			time.Sleep(time.Second)
			synctest.Wait()
			if s, e, in := b.orders(); [3]int{s, e, in} != want {
				t.Errorf("after %d seconds: %d sets, %d exits, %d internal circuits, not %v", i+1, s, e, in, want)
			}
		}
		for _, s := range b.specs {
			if (s.Set || len(s.Dests) == 0) != s.Stable {
				t.Errorf("stable: %v for %+v", s.Stable, s)
			}
		}
	})
}

// TestCommonSetHandles: a set stands for as many circuits to a predicted port as it has legs.
func TestCommonSetHandles(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	cfg := asCommon(0)
	cfg.Common.Sets = func() (int, int) { return 1, 10 }
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		var set *fakeCircuit
		for _, c := range b.circuits {
			if c.spec.Set {
				set = c
			} else {
				c.Close()
			}
		}
		if _, exits, _ := b.orders(); set == nil || exits != 1 {
			t.Fatalf("%d circuits to exits", exits)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, exits, _ := b.orders(); exits != 1 {
			t.Errorf("%d circuits to exits beside a set", exits)
		}
		set.lost.Add(1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, exits, _ := b.orders(); exits != 2 {
			t.Errorf("%d circuits to exits when the set has one leg", exits)
		}
	})
}

// TestCommonSetExits: the exit of a set is chosen for a stream that waits, then for a predicted port that too few circuits
// could serve, and then for any.
func TestCommonSetExits(t *testing.T) {
	var sets atomic.Int32
	b := &fakeBuilder{took: 100 * time.Millisecond, make: func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		if len(s.Dests) == 0 {
			return circuit(n, s), nil
		}
		if !s.Set && s.Dests[0].Port == 25 {
			<-ctx.Done() // the stream waits for ever
			return nil, context.Cause(ctx)
		}
		c := circuit(n, s)
		c.ports = []uint16{s.Dests[0].Port}
		return c, nil
	}}
	cfg := asCommon(0)
	cfg.Common.Sets = func() (int, int) { return int(sets.Load()), 10 }
	cfg.InitialPorts = []uint16{22, 443}
	asked := func() (ports []uint16) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.specs {
			if s.Set {
				ports = append(ports, s.Dests[0].Port)
			}
		}
		return ports
	}
	run(t, cfg, b, func(p *Pool) {
		next := func(want ...uint16) {
			t.Helper()
			sets.Add(1)
			time.Sleep(time.Second)
			synctest.Wait()
			if got := asked(); !slices.Equal(got, want) {
				t.Errorf("sets to exits for ports %v, not %v", got, want)
			}
		}
		time.Sleep(500 * time.Millisecond)
		next(22)
		next(22, 443)
		next(22, 443, 0)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go p.Acquire(ctx, to(25, key("a")))
		synctest.Wait()
		next(22, 443, 0, 25)
	})
}

// TestCommonPrompt: a pool that shall be prompt does not wait for its first second, and then goes on like others.
func TestCommonPrompt(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	cfg := asCommon(3 * time.Minute)
	cfg.Common.Prompt = true
	run(t, cfg, b, func(p *Pool) {
		for i, want := range [][3]int{{3, 1, 0}, {3, 1, 1}, {3, 1, 2}} {
			synctest.Wait()
			if s, e, in := b.orders(); [3]int{s, e, in} != want {
				t.Errorf("after %d seconds: %d sets, %d exits, %d internal circuits, not %v", i, s, e, in, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestCommonEnd: while build times are being learned, clean circuits close at the first tick of 31 seconds
// at which they are older than three minutes, and others take their place.
func TestCommonEnd(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	run(t, asCommon(3*time.Minute), b, func(p *Pool) {
		time.Sleep(5*31*time.Second + 31*time.Second)
		synctest.Wait()
		for _, c := range b.circuits {
			if c.closed() {
				t.Fatal("a circuit closed too early")
			}
		}
		before := b.launched()
		time.Sleep(2 * time.Second) // the tick is at 187 s
		synctest.Wait()
		closed := 0
		for _, c := range b.circuits {
			if c.closed() {
				closed++
			}
		}
		if n := b.launched() - before; closed != before || n < 4 {
			t.Errorf("%d of %d circuits closed, and %d took their place", closed, before, n)
		}
	})
}

// TestCommonDirty: a used circuit takes streams for ten minutes, and closes at the tick after
// that.
func TestCommonDirty(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	var swept []time.Time
	cfg := asCommon(0)
	cfg.Common.Swept = func(at time.Time) { swept = append(swept, at) }
	run(t, cfg, b, func(p *Pool) {
		start := time.Now()
		time.Sleep(2500 * time.Millisecond)
		l := acquire(t, p, to(443, key("a")))
		c := l.Circuit.(*fakeCircuit)
		l.Release()
		<-c.done
		// Ticks are at 1, 32, ... seconds; the first after 602.5 is at 621.
		if took := time.Since(start); took != 621*time.Second {
			t.Errorf("it closed after %v", took)
		}
		synctest.Wait()
		if len(swept) != 21 || swept[20].Sub(start) != 621*time.Second {
			t.Errorf("swept at %v", swept)
		}
	})
}

// TestCommonIdentity: a new identity leaves clean circuits for those who ask from then on, and closes used ones at the
// next tick. Nobody shares a circuit with somebody from before.
func TestCommonIdentity(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	run(t, asCommon(0), b, func(p *Pool) {
		time.Sleep(3500 * time.Millisecond)
		before := acquire(t, p, to(443, key("a")))
		used := before.Circuit.(*fakeCircuit)
		before.Release()
		clean := p.Status().Clean
		p.NewIdentity()
		synctest.Wait()
		if s := p.Status(); s.Clean != clean || used.closed() {
			t.Errorf("%d clean circuits, %d before; the used one has closed: %v", s.Clean, clean, used.closed())
		}
		after := acquire(t, p, to(443, key("a")))
		if after.Circuit == PooledCircuit(used) {
			t.Error("the new identity has the circuit of the old one")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if !used.closed() || after.Circuit.(*fakeCircuit).closed() {
			t.Error("the used circuit is open after the tick, or the new one is closed")
		}
	})
}

// TestCommonRetireAll: when other relays are wanted, clean circuits and those that are being built serve nobody, and
// the clean ones close at the next tick.
func TestCommonRetireAll(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	run(t, asCommon(0), b, func(p *Pool) {
		time.Sleep(4050 * time.Millisecond) // between the order of a circuit and its end
		n := b.launched()
		p.RetireAll()
		l := acquire(t, p, to(443, key("a")))
		defer l.Release()
		if b.launched() == n {
			t.Error("a stream got a circuit of before")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, c := range b.circuits[:n-1] { // one was being built
			if !c.closed() {
				t.Errorf("circuit %d of before is open after the tick", i)
			}
		}
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("the new circuit is closed")
		}
	})
}

// TestCommonWaits: who waited when a new identity was asked for shares no circuit with who came after it.
func TestCommonWaits(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	cfg := asCommon(0)
	cfg.Common.Sets = func() (int, int) { return 0, 0 }
	run(t, cfg, b, func(p *Pool) {
		got := make(chan *Lease, 1)
		go func() { got <- acquire(t, p, Request{Key: key("a"), Dest: path.Dest{Port: 22}}) }()
		synctest.Wait()
		p.NewIdentity()
		after := acquire(t, p, Request{Key: key("a"), Dest: path.Dest{Port: 22}})
		if before := <-got; before.Circuit == after.Circuit {
			t.Error("they share one")
		}
	})
}

// TestCommonLearns: a circuit to learn from is no set.
func TestCommonLearns(t *testing.T) {
	b := &fakeBuilder{took: time.Millisecond}
	cfg := asCommon(3 * time.Minute)
	cfg.Learn = func(open int) bool { return open < 10 }
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s, e, in := b.orders(); s != 3 || e != 7 || in != 3 {
			t.Errorf("%d sets, %d exits, %d internal circuits", s, e, in)
		}
	})
}

// TestCommonTakesSets: streams go by a set if one is there, whatever else is older or was used before, unless the pool need not look like C
// tor's.
func TestCommonTakesSets(t *testing.T) {
	for _, common := range []bool{true, false} {
		b := &fakeBuilder{took: 100 * time.Millisecond}
		cfg := asCommon(3 * time.Minute)
		if !common {
			cfg = bare()
		}
		run(t, cfg, b, func(p *Pool) {
			now := time.Now()
			web := Spec{Spec: path.Spec{Dests: []path.Dest{{Port: 443}}}}
			plain, set := circuit(1, web), circuit(2, web)
			p.mu.Lock()
			p.entries = []*entry{{c: plain, built: now.Add(-time.Minute), expires: now.Add(time.Hour)}, {c: set, set: true, built: now, expires: now.Add(time.Hour)}}
			p.mu.Unlock()
			first := acquire(t, p, to(443, key("a"))) // of clean ones
			p.mu.Lock()
			for _, e := range p.entries {
				e.dirty, e.key = time.Time{}, key("a")
				if !e.set {
					e.dirty = now
				}
			}
			p.mu.Unlock()
			second := acquire(t, p, to(443, key("a"))) // the other one was used
			for i, l := range []*Lease{first, second} {
				want := plain
				if common {
					want = set
				}
				if l.Circuit != PooledCircuit(want) {
					t.Errorf("common %v, stream %d: another circuit than number %d", common, i, want.exit[0])
				}
			}
		})
	}
}

// TestCommonNobodyAwaitsSet: a stream waits for a circuit, however long the sets take that are being built.
func TestCommonNobodyAwaitsSet(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond, make: func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		if s.Set {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return circuit(n, s), nil
	}}
	run(t, asCommon(0), b, func(p *Pool) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		begun := time.Now()
		for range 3 {
			l := acquire(t, p, Request{Key: key("a"), Dest: path.Dest{Port: 443}, Private: true})
			l.Release()
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
		for _, s := range b.specs {
			if s.Set && s.Idle == 0 {
				t.Error("a set does not know how long its legs may rest")
			}
		}
	})
}
