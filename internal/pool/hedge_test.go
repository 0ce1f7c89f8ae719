package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHedging(t *testing.T) {
	var stuck chan struct{}
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		if n == 0 {
			s.Slow()
			s.Slow()
			select {
			case <-stuck:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return circuit(n, s), nil
	}
	run(t, bare(), b, func(p *Pool) {
		stuck = make(chan struct{})
		start := time.Now()
		l := acquire(t, p, to(443, key("a")))
		if time.Since(start) != 2*time.Second || b.launched() != 2 {
			t.Errorf("after %v and %d launches", time.Since(start), b.launched())
		}
		close(stuck)
		synctest.Wait()
		if s := p.Status(); s.Clean != 1 || s.Dirty != 1 || s.Hedged != 1 {
			t.Errorf("the slow one is spare now: %+v", s)
		}
		l.Release()
	})
}

// TestHedgesAreBounded: no launch stands beside a slow one if that were one too many.
func TestHedgesAreBounded(t *testing.T) {
	cfg := bare()
	cfg.MaxClientCircuitsPending = 1
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		s.Slow()
		time.Sleep(time.Second)
		return circuit(n, s), nil
	}
	run(t, cfg, b, func(p *Pool) {
		acquire(t, p, to(443, key("a"))).Release()
		if b.launched() != 1 || p.Status().Hedged != 0 {
			t.Errorf("%d launches: %+v", b.launched(), p.Status())
		}
	})
}

// TestHedgesUntilTheGuardIsKnown: a circuit waits for a better guard until
// three other launches have shown that there is none.
func TestHedgesUntilTheGuardIsKnown(t *testing.T) {
	var enough chan struct{}
	b := &fakeBuilder{took: 10 * time.Millisecond}
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		switch {
		case n == 0:
			s.Slow()
			<-enough
			return circuit(n, s), nil
		case n == 3:
			close(enough)
		}
		return nil, errors.New("a primary guard is down")
	}
	run(t, bare(), b, func(p *Pool) {
		enough = make(chan struct{})
		start := time.Now()
		l := acquire(t, p, to(443, key("a")))
		if l.Circuit.(*fakeCircuit).exit != circuit(0, Spec{}).exit {
			t.Error("not the circuit that waited")
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// TestStartGetsPastOneThatHangs: after a failure only one circuit is tried at a
// time, but one that takes long does not keep the others back.
func TestStartGetsPastOneThatHangs(t *testing.T) {
	b := &fakeBuilder{took: 10 * time.Millisecond}
	b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
		switch n {
		case 0:
			return nil, errors.New("a relay is down")
		case 1:
			time.AfterFunc(5*time.Second, s.Slow)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return circuit(n, s), nil
	}
	run(t, Config{InitialPorts: []uint16{443}, PerPort: 1}, b, func(p *Pool) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := p.Status(); s.Clean != 1 || s.Launching != 1 {
			t.Errorf("%+v", s)
		}
	})
}
