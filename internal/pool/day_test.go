package pool

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// TestCommonIdleFromLaunch: whether times are being learned is asked when a circuit begins: those that end the learning close
// as soon as those before them.
func TestCommonIdleFromLaunch(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	learning := 3 * time.Minute
	cfg := asCommon(0)
	cfg.Common.Learning = func() time.Duration { return learning }
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(time.Second + 50*time.Millisecond)
		synctest.Wait()
		p.mu.Lock()
		learning = 0
		p.mu.Unlock()
		begun := b.launched()
		time.Sleep(7 * 31 * time.Second)
		synctest.Wait()
		for _, c := range b.circuits[:begun] {
			if !c.closed() {
				t.Error("a circuit that began while times were learned is kept for long")
			}
		}
	})
}

// TestCommonPredictsOnce: for how long something is predicted is drawn once, not again with each consensus.
func TestCommonPredictsOnce(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	run(t, asCommon(0), b, func(p *Pool) {
		p.SetAvailable(30 * time.Minute)
		drawn := p.cfg.Predict
		for range 20 {
			p.SetAvailable(30 * time.Minute)
		}
		if p.cfg.Predict != drawn {
			t.Errorf("%v, and then %v", drawn, p.cfg.Predict)
		}
		time.Sleep(2 * time.Hour) // nothing is predicted any more
		again := map[time.Duration]bool{}
		for range 5 {
			acquire(t, p, to(443, key("a"))).Release()
			again[p.cfg.Predict] = true
			time.Sleep(2 * time.Hour)
		}
		for d := range again {
			if d < 30*time.Minute || d >= time.Hour {
				t.Errorf("drawn: %v", d)
			}
		}
		if len(again) < 4 {
			t.Errorf("five uses after all was forgotten drew %d times", len(again))
		}
	})
}

// TestCommonServer: a client that hosts services keeps circuits ready for ever, and one without closes them in the end.
func TestCommonServer(t *testing.T) {
	for _, server := range []bool{false, true} {
		b := &fakeBuilder{took: 100 * time.Millisecond}
		cfg := asCommon(0)
		cfg.Common.Server = func() bool { return server }
		run(t, cfg, b, func(p *Pool) {
			p.SetAvailable(30 * time.Minute)
			time.Sleep(5 * time.Hour)
			synctest.Wait()
			if s := p.Status(); (s.Clean > 0) != server || p.Predicts() != server {
				t.Errorf("server %v: %d circuits, predicts %v", server, s.Clean, p.Predicts())
			}
		})
	}
}

// TestRestTooLate: a pool that is closed, and one that need not look like C tor's, close a circuit that nobody needs.
func TestRestTooLate(t *testing.T) {
	for _, common := range []bool{true, false} {
		cfg := bare()
		if common {
			cfg = asCommon(3 * time.Minute)
		}
		run(t, cfg, &fakeBuilder{took: 100 * time.Millisecond}, func(p *Pool) {
			if common {
				p.Close()
			}
			c := circuit(0, Spec{Spec: path.Spec{Hops: path.DefaultHops, Stable: true}})
			if p.Rest(c, time.Now()); !c.closed() {
				t.Errorf("common %v: the circuit stays", common)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if slices.ContainsFunc(p.entries, func(e *entry) bool { return e.idle }) {
				t.Errorf("common %v: the circuit is in the pool", common)
			}
		})
	}
}

// TestCommonSecond: what keeps to the pool's clock is called each second.
func TestCommonSecond(t *testing.T) {
	cfg, n := asCommon(3*time.Minute), 0
	cfg.Common.Second = func() { n++ }
	run(t, cfg, &fakeBuilder{took: 100 * time.Millisecond}, func(p *Pool) {
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		if n < 9 || n > 11 {
			t.Errorf("%d seconds in ten", n)
		}
	})
}

// TestCommonRest: a circuit that a service does not need counts as one built ahead, nobody gets it, and it closes with those that
// began when it did.
func TestCommonRest(t *testing.T) {
	b := &fakeBuilder{took: 100 * time.Millisecond}
	run(t, asCommon(3*time.Minute), b, func(p *Pool) {
		time.Sleep(500 * time.Millisecond)
		var rest []*fakeCircuit
		for range 4 {
			c := circuit(0, Spec{Spec: path.Spec{Hops: path.DefaultHops, Stable: true}})
			rest = append(rest, c)
			p.Rest(c, time.Now())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, _, in := b.orders(); in != 0 {
			t.Errorf("%d more internal circuits were built ahead", in)
		}
		l := acquire(t, p, Request{Key: key("a"), Internal: true, Private: true})
		if slices.Contains(rest, l.Circuit.(*fakeCircuit)) {
			t.Error("somebody got a circuit that rests")
		}
		l.Release()
		time.Sleep(5 * 31 * time.Second)
		for i, c := range rest {
			if c.closed() {
				t.Errorf("circuit %d closed too early", i)
			}
		}
		time.Sleep(2 * 31 * time.Second)
		synctest.Wait()
		for i, c := range rest {
			if !c.closed() {
				t.Errorf("circuit %d stays", i)
			}
		}
	})
}

// TestPrivateLaunches: as many circuits are begun as there are private requests at one time, in whatever order they are built.
func TestPrivateLaunches(t *testing.T) {
	const n = 16
	b := &fakeBuilder{make: func(i int, _ context.Context, s Spec) (*fakeCircuit, error) {
		time.Sleep(time.Duration(n-i) * time.Millisecond) // the last is the first
		return circuit(i, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				acquire(t, p, Request{Key: key("a"), Internal: true, Private: true, Next: ident.RSAID{byte(i + 1)}})
			})
		}
		wg.Wait()
		if got := b.launched(); got != n {
			t.Errorf("%d circuits for %d requests", got, n)
		}
	})
}
