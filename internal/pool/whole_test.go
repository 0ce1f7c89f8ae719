package pool

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// network is a builder over the real guards, paths and build timeouts, and
// over relays of which some are down.
type network struct {
	d *netdir.Directory
	g *guard.Manager

	mu     sync.Mutex
	cbt    *cbt.Estimator
	rnd    *rand.Rand
	down   map[ident.RSAID]bool
	guards map[ident.RSAID]int // circuits that were handed out, by guard
}

type wholeCircuit struct {
	fakeCircuit
	p *path.Path
}

func (c *wholeCircuit) Allows(d path.Dest) bool { return path.Allows(c.p.Exit().Relay, d) }
func (c *wholeCircuit) Exit() ident.RSAID       { return c.p.Exit().Target.RSA }
func (c *wholeCircuit) Stable() bool            { return c.p.Exit().Relay.Has(netdir.FlagStable) }

func (c *wholeCircuit) Close() {
	c.once.Do(func() {
		close(c.done)
		c.p.Guard.Closed(time.Now(), true)
	})
}

func (n *network) Build(ctx context.Context, s Spec) (PooledCircuit, error) {
	start := time.Now()
	n.mu.Lock()
	p, err := (&path.Config{}).Choose(n.d, n.g, n.rnd, &s.Spec, start)
	hop := time.Duration(50+n.rnd.IntN(200)) * time.Millisecond
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for i, h := range p.Hops {
		time.Sleep(hop)
		n.mu.Lock()
		down := n.down[h.Target.RSA]
		if !down {
			n.cbt.HopBuilt(i+1, len(p.Hops), start, time.Now(), false)
		}
		n.mu.Unlock()
		switch {
		case down && i == 0:
			p.Guard.Failed(time.Now(), guard.Unreachable)
			return nil, fault.New(fault.Network, "the guard is down")
		case down:
			p.Guard.Failed(time.Now(), guard.Beyond)
			return nil, &HopError{h.Target.RSA, fault.New(fault.Network, "hop %d is down", i+1)}
		case i == 1:
			p.Guard.Extended()
		}
	}
	if p.Guard.Succeeded(time.Now()) == guard.Wait {
		s.Slow()
		for p.Guard.Decision() == guard.Wait {
			tick := time.NewTimer(time.Second)
			select {
			case <-p.Guard.Decided():
			case <-tick.C:
				n.g.Tick(time.Now())
			case <-ctx.Done():
				p.Guard.Cancelled(time.Now())
				return nil, context.Cause(ctx)
			}
			tick.Stop()
		}
		if p.Guard.Decision() != guard.UseNow {
			return nil, fault.New(fault.Network, "no better guard, and this one too late")
		}
	}
	n.mu.Lock()
	n.guards[p.Hops[0].Target.RSA]++
	n.mu.Unlock()
	c := &wholeCircuit{fakeCircuit{done: make(chan struct{})}, p}
	return c, nil
}

// TestGuardGoesDown: a client works, its guard stops, new streams work again
// within seconds over the next one, and the first is used again when it is
// back.
func TestGuardGoesDown(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 500})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Publish(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil { // when synctest's clock begins
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 1))
		g, err := guard.New(guard.Config{Rand: rand.New(rand.NewPCG(2, 2))}, &guard.MemStore{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		g.Update(guard.FromNetdir(d), time.Now())
		n := &network{d: d, g: g, cbt: cbt.New(cbt.DefaultParams()), rnd: rnd, down: map[ident.RSAID]bool{}, guards: map[ident.RSAID]int{}}
		p := New(Config{InitialPorts: []uint16{443}}, n)
		defer p.Close()
		use := func(user string) (guardID ident.RSAID, took time.Duration) {
			start := time.Now()
			l := acquire(t, p, to(443, key(user)))
			defer l.Release()
			return l.Circuit.(*wholeCircuit).p.Hops[0].Target.RSA, time.Since(start)
		}
		first, _ := use("a")
		time.Sleep(10 * time.Second)
		if id, took := use("b"); id != first || took != 0 {
			t.Fatalf("a prebuilt circuit over the same guard: %v", took)
		}
		stop := func(id ident.RSAID) {
			n.mu.Lock()
			n.down[id] = true
			n.mu.Unlock()
			p.mu.Lock()
			for _, e := range p.entries { // its own, and the few around it
				e.c.Close()
			}
			p.mu.Unlock()
		}
		stop(first)
		second, took := use("c")
		if second == first || took > 5*time.Second {
			t.Fatalf("working again after %v", took)
		}
		t.Logf("the first guard stopped: working again after %v", took)
		time.Sleep(10 * time.Second) // until no circuit is half built over a guard that stops

		// All three primary guards stop.
		for _, info := range g.Status(time.Now()).Guards[:3] {
			stop(info.ID.RSA)
		}
		last, took := use("d")
		if took > 10*time.Second {
			t.Fatalf("working again after %v", took)
		}
		t.Logf("all primary guards stopped: working again after %v", took)
		if last == first || last == second {
			t.Fatal("a guard that is down")
		}

		// They come back: after their retry time, the most preferred is used.
		n.mu.Lock()
		clear(n.down)
		n.mu.Unlock()
		want := g.Status(time.Now()).Guards[0].ID.RSA
		n.mu.Lock()
		before := n.guards[want]
		n.mu.Unlock()
		for i := range 6 {
			time.Sleep(11 * time.Minute)
			use("e" + string(rune('0'+i)))
		}
		synctest.Wait()
		if n.guards[want] <= before {
			t.Error("the preferred guard is back, and not used")
		}
		if len(n.guards) > 4 {
			t.Errorf("%d guards were used", len(n.guards))
		}
		p.Close()
		for _, info := range g.Status(time.Now()).Guards {
			if info.OpenCircuits+info.Tries > 0 {
				t.Error("a circuit is still counted by its guard")
			}
		}
		if n.cbt.Status().Observations == 0 {
			t.Error("no build times were learned")
		}
	})
}
