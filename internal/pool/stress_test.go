package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
)

// TestRandomUse lets many streams come and go for hours, over circuits that
// fail, stall and die, and checks that no circuit ever serves two identities,
// a port that it refuses, or a stream after its time.
func TestRandomUse(t *testing.T) {
	var hedged uint64
	for seed := range uint64(5) {
		b := &fakeBuilder{took: 300 * time.Millisecond}
		b.make = func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) {
			switch r := rand.New(rand.NewPCG(seed, uint64(n))); r.IntN(6) {
			case 0:
				return nil, &HopError{ident.RSAID{byte(r.IntN(50))}, errors.New("hop failed")}
			case 1:
				s.Slow()
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			c := circuit(n, s)
			if s.Dests[0].Port != 0 {
				c.ports = []uint16{s.Dests[0].Port, 80}
			}
			time.AfterFunc(time.Duration(rand.Int64N(int64(20*time.Minute))), c.Close)
			return c, nil
		}
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{Live: Live{MaxClientCircuitsPending: 6}, MaxStreams: 5, Rand: rand.New(rand.NewPCG(seed, 1))}, b)
			var mu sync.Mutex
			owner := map[PooledCircuit]isolation.Key{}
			first := map[PooledCircuit]time.Time{}
			open := map[PooledCircuit]int{}
			var wg sync.WaitGroup
			for w := range 40 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(w)+1000))
					for range 30 {
						time.Sleep(time.Duration(r.Int64N(int64(5 * time.Minute))))
						k := key(fmt.Sprint(r.IntN(6)))
						q := to([]uint16{80, 443, 22, 0}[r.IntN(4)], k)
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Int64N(int64(20*time.Second))))
						l, err := p.Acquire(ctx, q)
						cancel()
						if err != nil {
							continue
						}
						mu.Lock()
						now := time.Now()
						if o, ok := owner[l.Circuit]; ok && o != k {
							t.Error("a circuit serves two identities")
						}
						if f, ok := first[l.Circuit]; !ok {
							first[l.Circuit] = now
						} else if now.Sub(f) >= 10*time.Minute {
							t.Error("a stream on a circuit after its time")
						}
						owner[l.Circuit] = k
						if open[l.Circuit]++; open[l.Circuit] > 5 {
							t.Error("too many streams")
						}
						if !l.Circuit.Allows(q.Dest) || q.stable() && !l.Circuit.Stable() {
							t.Error("a circuit that does not fit")
						}
						mu.Unlock()
						time.Sleep(time.Duration(r.Int64N(int64(time.Minute))))
						switch r.IntN(10) {
						case 0:
							l.Retire()
						case 1:
							l.ExitRefused()
						case 2:
							p.NewIdentity()
						}
						mu.Lock()
						open[l.Circuit]--
						mu.Unlock()
						l.Release()
					}
				})
			}
			wg.Wait()
			s := p.Status()
			if s.Streams != 0 || s.Waiting != 0 || s.Leased < 200 || s.Reused == 0 {
				t.Errorf("seed %d: %+v", seed, s)
			}
			hedged += s.Hedged
			p.Close()
			for _, c := range b.circuits {
				if !c.closed() {
					t.Error("a circuit outlived the pool")
				}
			}
		})
	}
	if hedged == 0 {
		t.Error("nobody waited for a slow circuit")
	}
}

func BenchmarkAcquireReuse(b *testing.B) {
	p := New(bare(), &fakeBuilder{})
	defer p.Close()
	keep := acquire(b, p, to(443, key("a")))
	defer keep.Release()
	ctx, r := context.Background(), to(443, key("a"))
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Acquire(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}
