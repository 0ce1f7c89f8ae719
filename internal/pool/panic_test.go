package pool

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestPanicEndsALaunch: a builder's panic is a failure like others, and the
// request is served by the next launch.
func TestPanicEndsALaunch(t *testing.T) {
	panicstest.Expect(t, 1)
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if n == 0 {
			panic("a mistake")
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		acquire(t, p, to(443, key("a")))
		if s := p.Status(); s.Failed != 1 || s.Built != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPanicWhileKeeping: what a circuit's own method does wrong under the pool's
// lock leaves the lock free, and the keeper goes on.
func TestPanicWhileKeeping(t *testing.T) {
	panicstest.Expect(t, 1)
	b := &fakeBuilder{}
	cfg := bare()
	first := true
	cfg.Learn = func(int) bool {
		if first {
			first = false
			panic("a mistake")
		}
		return false
	}
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(time.Minute) // of virtual time
		acquire(t, p, to(443, key("a")))
	})
	if first {
		t.Error("the keeper did not come to it")
	}
}
