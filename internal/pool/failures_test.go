package pool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

func TestDeadCircuitIsReplaced(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, c := range b.circuits {
			c.Close()
		}
		l := acquire(t, p, to(443, key("a"))) // at once, before anybody noticed
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("a dead circuit was handed out")
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("not filled up: %+v", s)
		}
	})
}

func TestFailuresRetryWithAnotherPath(t *testing.T) {
	bad := ident.RSAID{7}
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if n < 3 {
			return nil, &HopError{bad, fault.New(fault.Timeout, "hop 2 is silent")}
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		start := time.Now()
		acquire(t, p, to(443, key("a")))
		// Pauses: none, 100 ms, 200 ms.
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("after %v", d)
		}
		if got := b.specs[1].Exclude; len(got) != 1 || got[0] != bad {
			t.Error("the next path did not go around the relay that failed")
		}
		if s := p.Status(); s.Failures != 0 || s.Failed != 3 || s.Built != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestFailuresAtOnceCountOnce: a guard's end is one failure, however many
// circuits were being built through it.
func TestFailuresAtOnceCountOnce(t *testing.T) {
	const users = 20
	b := &fakeBuilder{took: time.Second, make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if n < users {
			return nil, fault.New(fault.Network, "the guard is gone")
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range users {
			wg.Go(func() {
				l, err := p.Acquire(context.Background(), to(443, key(strconv.Itoa(i))))
				if d := time.Since(start); err != nil || d != 2*time.Second {
					t.Errorf("after %v, where no pause is due after one failure: %v", d, err)
					return
				}
				l.Release()
			})
		}
		wg.Wait()
	})
}

func TestGivesUp(t *testing.T) {
	cause := fault.New(fault.Network, "no way")
	b := &fakeBuilder{make: func(int, context.Context, Spec) (*fakeCircuit, error) { return nil, cause }}
	run(t, bare(), b, func(p *Pool) {
		_, err := p.Acquire(context.Background(), to(443, key("a")))
		if !errors.Is(err, cause) || !fault.Is(err, fault.Network) || b.launched() != 8 {
			t.Errorf("after %d launches: %v", b.launched(), err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = p.Acquire(ctx, to(443, key("a")))
		if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.Timeout) {
			t.Errorf("at the deadline: %v", err)
		}
		p.Retry()
		if s := p.Status(); s.Failures != 0 {
			t.Error("the past is not forgotten")
		}
	})
}

func TestHopelessRequestsFailAtOnce(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if s.Dests[0].Port == 25 {
			return nil, fmt.Errorf("%w exit for port 25", path.ErrNone)
		}
		c := circuit(n, s)
		c.ports = []uint16{443}
		return c, nil
	}}
	run(t, Config{InitialPorts: []uint16{25, 443}}, b, func(p *Pool) {
		_, err := p.Acquire(context.Background(), to(25, key("a")))
		if !errors.Is(err, path.ErrNone) {
			t.Error(err)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := b.launched(); n > 10 {
			t.Errorf("%d launches: what cannot be had is tried for ever", n)
		}
		if s := p.Status(); s.Failures != 0 || s.Clean != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestOnlyRelayFailedOnce(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		switch {
		case n == 0:
			return nil, &HopError{ident.RSAID{7}, errors.New("hop 2 failed")}
		case len(s.Exclude) > 0:
			return nil, fmt.Errorf("%w middle relay", path.ErrNone)
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		acquire(t, p, to(443, key("a")))
		if b.launched() != 3 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

// TestHopelessForAnother: a request that waits for the launch of another one, which wants
// more, does not fail with it.
func TestHopelessForAnother(t *testing.T) {
	bad := []ident.RSAID{{7}}
	internal := Request{Internal: true, Key: key("a")}
	for name, x := range map[string]struct{ more, less Request }{
		"an exit that failed":  {Request{Key: key("a"), Dest: path.Dest{Port: 443}, ExcludeExit: bad}, to(443, key("a"))},
		"a relay that follows": {Request{Internal: true, Key: key("a"), Next: bad[0]}, internal},
	} {
		b := &fakeBuilder{took: time.Second, make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
			if len(s.ExcludeExit) > 0 || !s.Next.IsZero() {
				return nil, fault.New(fault.Config, "%w exit", path.ErrNone)
			}
			return circuit(n, s), nil
		}}
		run(t, bare(), b, func(p *Pool) {
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				if _, err := p.Acquire(context.Background(), x.more); !errors.Is(err, path.ErrNone) {
					t.Error(name, err)
				}
			})
			synctest.Wait()
			l := acquire(t, p, x.less)
			if n := b.launched(); n != 2 || l.Circuit.(*fakeCircuit) != b.circuits[0] {
				t.Error(name, n)
			}
		})
	}
}

func TestNetworkDown(t *testing.T) {
	var up atomic.Bool
	b := &fakeBuilder{}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if !up.Load() {
			return nil, errors.New("network is unreachable")
		}
		return circuit(n, s), nil
	}
	run(t, Config{}, b, func(p *Pool) {
		time.Sleep(30 * time.Minute)
		if n := b.launched(); n < 25 || n > 60 {
			t.Errorf("%d launches in half an hour without a network", n)
		}
		up.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("the network is back: %+v", s)
		}
	})
}

func TestRetryable(t *testing.T) {
	for r, want := range map[cell.EndReason]bool{
		cell.EndExitPolicy: true, cell.EndResolveFailed: true, cell.EndMisc: true, cell.EndNoRoute: true,
		cell.EndHibernating: true, cell.EndResourceLimit: true, cell.EndDestroy: true,
		cell.EndConnectRefused: false, cell.EndDone: false, cell.EndTimeout: false, cell.EndConnReset: false,
		cell.EndTorProtocol: false, cell.EndInternal: false, cell.EndNotDirectory: false,
	} {
		if Retryable(r) != want {
			t.Errorf("%v: %v", r, !want)
		}
	}
}
