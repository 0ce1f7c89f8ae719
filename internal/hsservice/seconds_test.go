package hsservice

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// counted is offline, and notes when circuits to introduction points are asked for.
type counted struct {
	offline
	began time.Time
	mu    *sync.Mutex // guards at
	at    *[]time.Duration
}

func (c counted) Build(ctx context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	c.mu.Lock()
	*c.at = append(*c.at, time.Since(c.began))
	c.mu.Unlock()
	<-ctx.Done()
	return nil, 0, context.Cause(ctx)
}

// TestSeconds: what a service begins by itself begins at a second of its client's clock, and not before there is one, the circuits of
// both descriptors at the same.
func TestSeconds(t *testing.T) {
	const tick = 2700 * time.Millisecond
	for _, common := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Duration
			n := counted{offline: offline{d: newShelf(t).dir}, began: time.Now(), mu: new(sync.Mutex), at: &at}
			cfg := Config{Key: key(t), Network: n, Live: Live{IntroductionPoints: DefaultPoints}}
			second := make(chan struct{})
			if common {
				cfg.Second = func() <-chan struct{} { return second }
			}
			s, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			time.Sleep(tick)
			s.kick() // nothing hurries it
			synctest.Wait()
			old := second
			second = make(chan struct{})
			close(old)
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			want := time.Duration(0)
			if common {
				want = tick
			}
			if len(at) != 2*(DefaultPoints+extraPoints) {
				t.Errorf("common %v: %d circuits", common, len(at))
			}
			for _, d := range at {
				if d != want {
					t.Errorf("common %v: a circuit begins after %v", common, d)
				}
			}
		})
	}
}

// TestSpare: a circuit that turns out not to be needed is given away as it is, and what is not complete by then goes on.
func TestSpare(t *testing.T) {
	for _, common := range []bool{false, true} {
		s, now := two(t), time.Now()
		given := 0
		if common {
			s.cfg.Spare = func(*circuit.Circuit, time.Time) { given++ }
		}
		s.mu.Lock()
		for i := range byte(DefaultPoints) {
			upOf(t, s, s.descs[0], i+1, now)
		}
		late := upOf(t, s, s.descs[0], 9, now)
		ended := false
		late.circ, late.building, late.target.RSA, late.cancel = nil, true, ident.RSAID{}, func() { ended = true }
		s.dropSurplusLocked(s.descs[0], now)
		s.mu.Unlock()
		if ended == common {
			t.Errorf("common %v: the launch was ended: %v", common, ended)
		}
		if common {
			s.surplus(nil, now, true)
			s.surplus(nil, now, true)
			if given != 2 {
				t.Errorf("%d circuits were given away", given)
			}
		}
		down(s)
	}
}
