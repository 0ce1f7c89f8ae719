package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/path"
)

func TestPrediction(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 || s.Preemptive != 2 {
			t.Fatalf("at first: %+v", s)
		}
		start := time.Now()
		l := acquire(t, p, to(443, key("a")))
		if time.Since(start) != 0 {
			t.Error("a predicted request had to wait")
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 || s.Dirty != 1 {
			t.Errorf("not filled up: %+v", s)
		}
		l.Release()
		// An identity has a circuit; another takes a clean one.
		acquire(t, p, to(443, key("b"))).Release()
		time.Sleep(58 * time.Minute)
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("an hour is not over: %+v", s)
		}
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean+s.Launching != 0 {
			t.Errorf("still predicted after an hour without use: %+v", s)
		}
	})
}

func TestPredictionLearnsPorts(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		if s.Dests[0].Port == 443 {
			c.ports = []uint16{80, 443}
		} else {
			c.ports = []uint16{s.Dests[0].Port}
		}
		return c, nil
	}}
	run(t, Config{InitialPorts: []uint16{80, 443}}, b, func(p *Pool) {
		synctest.Wait()
		// 443's circuits are good for 80 as well, whichever came first.
		if s := p.Status(); s.Clean > 4 {
			t.Errorf("%+v", s)
		}
		acquire(t, p, to(22, key("a"))).Release()
		synctest.Wait()
		n := 0
		for _, c := range b.circuits {
			if c.Allows(path.Dest{Port: 22}) && !c.closed() {
				n++
				if !c.stable {
					t.Error("port 22 needs Stable relays")
				}
			}
		}
		if n != 3 { // the one in use and two clean ones
			t.Errorf("%d circuits for port 22", n)
		}
	})
}

func TestMaxClean(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.ports = []uint16{s.Dests[0].Port}
		return c, nil
	}}
	var ports []uint16
	for i := range uint16(200) {
		ports = append(ports, 1000+i)
	}
	run(t, Config{InitialPorts: ports, MaxClean: 12}, b, func(p *Pool) {
		synctest.Wait()
		if s := p.Status(); s.Clean != 12 || s.Launched != 12 {
			t.Errorf("%+v", s)
		}
		for i := range uint16(200) {
			acquire(t, p, to(2000+i, key("a"))).Release()
		}
		synctest.Wait()
		if len(p.predicted) > maxPredicted+len(ports) {
			t.Errorf("%d ports are predicted", len(p.predicted))
		}
	})
}

func TestCleanCircuitsExpire(t *testing.T) {
	b := &fakeBuilder{took: 2 * time.Second}
	run(t, bare(), b, func(p *Pool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, to(443, key("a"))); err == nil {
			t.Fatal("too fast")
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := p.Status(); s.Clean != 0 || !b.circuits[0].closed() {
			t.Errorf("%+v", s)
		}
	})
}

func TestLearning(t *testing.T) {
	b := &fakeBuilder{}
	cfg := bare()
	asked := 0
	cfg.Learn = func(open int) bool { asked++; return open < 3 }
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(time.Minute)
		synctest.Wait() // it asks at this moment, too
		if s := p.Status(); s.Clean != 3 || asked < 6 {
			t.Errorf("asked %d times: %+v", asked, s)
		}
	})
}

// TestInternalAhead: circuits for onion services are built ahead, whatever their last
// relays let out and however many circuits were built to learn. They are not built at
// the same moment as one is taken.
func TestInternalAhead(t *testing.T) {
	b := &fakeBuilder{took: time.Millisecond, make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.everything = true
		return c, nil
	}}
	cfg := Config{InitialPorts: []uint16{}, MaxClean: 6, Learn: func(open int) bool { return open < 20 }}
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(10 * time.Minute)
		internal := Request{Internal: true, Private: true}
		acquire(t, p, internal).Release()
		time.Sleep(time.Second)
		before := b.launched()
		start := time.Now()
		first, second := acquire(t, p, internal), acquire(t, p, internal)
		if took := time.Since(start); took != 0 {
			t.Errorf("two circuits took %v", took)
		}
		time.Sleep(restTime / 2)
		synctest.Wait()
		if n := b.launched() - before; n != 0 {
			t.Errorf("%d circuits were built while the stream began", n)
		}
		time.Sleep(restTime)
		synctest.Wait()
		if n := b.launched() - before; n != 2 {
			t.Errorf("%d circuits were built ahead, not 2", n)
		}
		third, fourth := acquire(t, p, internal), acquire(t, p, internal)
		p.EndRest()
		synctest.Wait()
		if n := b.launched() - before; n != 2 {
			t.Errorf("%d circuits were built ahead at once when the stream was open, not 2", n)
		}
		time.Sleep(openTime)
		synctest.Wait()
		if n := b.launched() - before; n != 4 {
			t.Errorf("%d circuits were built ahead when the stream was open, not 4", n)
		}
		out := acquire(t, p, to(443, key("a")))
		if c := out.Circuit.(*fakeCircuit); len(c.spec.Dests) == 0 {
			t.Error("a stream leaves over a circuit for onion services")
		}
		for _, l := range []*Lease{first, second, third, fourth, out} {
			l.Release()
		}
	})
}
