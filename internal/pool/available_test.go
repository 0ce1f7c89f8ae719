package pool

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestAvailable: the consensus says how long an idle client builds circuits and keeps them,
// and so how long its link to the guard stays open: once to twice what it says, and not a
// circuit's own time more.
func TestAvailable(t *testing.T) {
	const least = 10 * time.Minute
	for seed := range uint64(20) {
		b := &fakeBuilder{took: time.Second}
		run(t, Config{InitialPorts: []uint16{443}, Rand: rand.New(rand.NewPCG(seed, 1))}, b, func(p *Pool) {
			p.SetAvailable(least)
			time.Sleep(least - time.Second)
			synctest.Wait()
			if s := p.Status(); s.Clean+s.Launching == 0 {
				t.Errorf("seed %d: no circuit is left after %v: %+v", seed, least-time.Second, s)
			}
			time.Sleep(least + least/5)
			synctest.Wait()
			if s := p.Status(); s.Clean+s.Launching != 0 {
				t.Errorf("seed %d: circuits are kept for more than twice %v: %+v", seed, least, s)
			}
		})
	}
}
