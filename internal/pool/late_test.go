package pool

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// alone is a configuration whose pool looks like C tor's, without sets.
func alone(ports ...uint16) Config {
	cfg := asCommon(3 * time.Minute)
	cfg.Common.Sets = func() (int, int) { return 0, 0 }
	cfg.InitialPorts = append([]uint16{}, ports...)
	return cfg
}

// TestLateIsNoFailure: what waits for a circuit that is late gets another one at the next second, again and again, more often than
// launches may fail, and none of it counts as a failure.
func TestLateIsNoFailure(t *testing.T) {
	start := sync.OnceValue(time.Now) // of the bubble
	const slowUntil, lateAfter = 30 * time.Second, 1500 * time.Millisecond
	b := &fakeBuilder{}
	var mu sync.Mutex
	var began []time.Duration
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		if len(s.Dests) == 0 {
			return circuit(n, s), nil
		}
		since := time.Since(start())
		mu.Lock()
		began = append(began, since)
		mu.Unlock()
		if since >= slowUntil {
			return circuit(n, s), nil
		}
		time.Sleep(lateAfter)
		s.Late()
		return nil, ErrLate
	}
	run(t, alone(), b, func(p *Pool) {
		start()
		time.Sleep(200 * time.Millisecond)
		l := acquire(t, p, to(443, key("a")))
		if d := time.Since(start()); d != slowUntil {
			t.Errorf("served after %v", d)
		}
		l.Release()
		s := p.Status()
		if s.Failures != 0 || s.Failed != 0 || s.Late < 25 {
			t.Errorf("%+v", s)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, at := range began[1:] {
			if at%time.Second != 0 {
				t.Errorf("a launch after %v, which is no whole second", at)
			}
		}
		if !slices.Contains(began, 2*time.Second) {
			t.Errorf("the first circuit is late after 1.7 seconds, and nothing took its place at the next: %v", began)
		}
	})
}

// TestLateIsReplacedInTheSameSecond: what Begin finds late is replaced in that second, and its circuit goes to nobody even if the
// builder has one after all.
func TestLateIsReplacedInTheSameSecond(t *testing.T) {
	b := &fakeBuilder{}
	var mu sync.Mutex
	var late []func()
	out := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // of the bubble
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		mu.Lock()
		if len(s.Dests) > 0 {
			late = append(late, s.Late)
		}
		mu.Unlock()
		select {
		case <-out():
			return circuit(n, s), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	cfg, second := alone(443), 0
	cfg.Common.Begin = func(time.Time) {
		if second++; second == 20 {
			mu.Lock()
			defer mu.Unlock()
			late[0]()
			late[0]()
		}
	}
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(19500 * time.Millisecond)
		_, before, _ := b.orders()
		time.Sleep(time.Second)
		if _, after, _ := b.orders(); after != before+1 {
			t.Errorf("%d circuits to exits, and before %d", after, before)
		}
		launched := b.launched()
		close(out())
		synctest.Wait()
		if s := p.Status(); s.Clean != launched-1 || s.Late != 1 || s.Launching != 0 {
			t.Errorf("of %d: %+v", launched, s)
		}
	})
}

// TestLateSet: an order of which only the end is told, as of a set, is no failure either, and what waits is served at once.
func TestLateSet(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		if n == 0 {
			return nil, ErrLate
		}
		return circuit(n, s), nil
	}
	run(t, bare(), b, func(p *Pool) {
		start := time.Now()
		acquire(t, p, to(443, key("a"))).Release()
		if s := p.Status(); time.Since(start) != 2*time.Second || s.Failures != 0 || s.Late != 1 {
			t.Errorf("after %v: %+v", time.Since(start), s)
		}
	})
}
