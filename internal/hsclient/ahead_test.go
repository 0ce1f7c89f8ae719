package hsclient

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// openCirc is a circuit without an end that counts how often it was closed.
type openCirc struct {
	closing
	engine circuit.Circuit
}

func (c *openCirc) Engine() *circuit.Circuit { return &c.engine }

// aheadNet gives circuits for rendezvous points, and counts them.
type aheadNet struct {
	fakeNet
	made []*openCirc
}

func (f *aheadNet) Internal(context.Context, bool) (Circuit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := new(openCirc)
	f.made = append(f.made, c)
	return c, nil
}

// circuits returns how many were made.
func (f *aheadNet) circuits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.made)
}

// aheadClient has a client that keeps a descriptor.
func aheadClient(t *testing.T) (*Client, *aheadNet, *cached) {
	t.Helper()
	s := newService(t)
	f := &aheadNet{}
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), Private: true})
	c.establish = func(_ context.Context, circ Circuit) (*rendezvous, error) {
		return &rendezvous{circ: circ, state: established}, nil
	}
	return c, f, keepAs(c, 1, &s.inner)
}

func keepAs(c *Client, n byte, inner *netdoc.HSInner) *cached {
	d := &cached{inner: inner, blinded: ident.Ed25519ID{n}, expires: time.Now().Add(24 * time.Hour)}
	c.keep(d, c.epochNow())
	return d
}

// meetOnce notes a meeting, and waits until what it starts is over.
func meetOnce(c *Client, d *cached) {
	c.meetAgain(d, false)
	time.Sleep(2 * aheadRest) // virtual
	synctest.Wait()
}

// TestNextIsPrepared: after the second meeting of a service within a short time, and not
// after the first, a rendezvous point is there for the next one, once. No introduction
// point hears of it.
func TestNextIsPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, d := aheadClient(t)
		defer c.Close()
		meetOnce(c, d)
		if f.circuits() != 0 {
			t.Fatal("a circuit is built ahead after one meeting")
		}
		time.Sleep(aheadWithin)
		meetOnce(c, d)
		if f.circuits() != 0 {
			t.Fatal("a circuit is built ahead after two meetings that were far apart")
		}
		c.meetAgain(d, false)
		if synctest.Wait(); f.circuits() != 0 {
			t.Error("the circuit is built while the stream is being opened")
		}
		meetOnce(c, d)
		meetOnce(c, d)
		if f.circuits() != 1 || len(f.to) != 0 {
			t.Fatalf("%d circuits are built ahead, %d of them to introduction points", f.circuits(), len(f.to))
		}
		if rend := c.takeNext(d, false); rend == nil || rend.circ != f.made[0] {
			t.Error("the rendezvous point is not taken")
		}
		if rend := c.takeNext(d, false); rend != nil {
			t.Error("the rendezvous point is taken twice")
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); f.made[0].n.Load() != 0 {
			t.Error("a circuit that was taken is closed")
		}
	})
}

// TestNextIsStable: a rendezvous point is not taken for a stream that needs better relays.
func TestNextIsStable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, d := aheadClient(t)
		defer c.Close()
		for _, v := range []struct{ prepared, wanted, taken bool }{{false, false, true}, {true, true, true}, {true, false, true}, {false, true, false}} {
			circ := new(openCirc)
			rend := &rendezvous{circ: circ, state: established}
			if !c.keepNext(d, &next{rend: rend, stable: v.prepared}) {
				t.Fatal("it is not kept")
			}
			got := c.takeNext(d, v.wanted)
			if (got == rend) != v.taken || (circ.n.Load() == 0) != v.taken {
				t.Errorf("%+v: taken: %t, closed %d times", v, got != nil, circ.n.Load())
			}
		}
	})
}

// TestNextEnds: a rendezvous point that was prepared closes when nobody needs it, with
// its descriptor, and with the client.
func TestNextEnds(t *testing.T) {
	for name, end := range map[string]func(*Client, *cached){
		"idle":             func(c *Client, _ *cached) { time.Sleep(10 * time.Minute) },
		"a new identity":   func(c *Client, _ *cached) { c.NewIdentity() },
		"the memory":       func(c *Client, d *cached) { c.evict(d) },
		"a newer one":      func(c *Client, d *cached) { keepAs(c, d.blinded[0], d.inner) },
		"the client's end": func(c *Client, _ *cached) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f, d := aheadClient(t)
				defer c.Close()
				meetOnce(c, d)
				meetOnce(c, d)
				end(c, d)
				if synctest.Wait(); f.circuits() != 1 || f.made[0].n.Load() != 1 {
					t.Errorf("%d circuits, the first closed %d times", f.circuits(), f.made[0].n.Load())
				}
				if d.ahead.next != nil {
					t.Error("the circuit is kept")
				}
			})
		})
	}
}

// TestNextGivenUp: a circuit that is being built when its descriptor goes is not kept.
func TestNextGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, d := aheadClient(t)
		defer c.Close()
		c.meetAgain(d, false)
		c.meetAgain(d, false)
		c.NewIdentity()
		time.Sleep(2 * aheadRest)
		if synctest.Wait(); f.circuits() > 0 && f.made[0].n.Load() != 1 || d.ahead.next != nil {
			t.Error("the circuit stays open")
		}
		e := keepAs(c, 2, d.inner)
		c.meetAgain(e, false)
		c.meetAgain(e, false)
		c.Close() // waits for what is under way
	})
}

// TestFewArePrepared: circuits are built ahead for a few services only.
func TestFewArePrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, d := aheadClient(t)
		defer c.Close()
		for n := range byte(maxAhead + 3) {
			e := keepAs(c, n, d.inner)
			c.meetAgain(e, false)
			c.meetAgain(e, false)
		}
		time.Sleep(2 * aheadRest)
		if synctest.Wait(); f.circuits() != maxAhead {
			t.Errorf("%d circuits are built ahead", f.circuits())
		}
	})
}

// stuckNet has no circuit for anybody.
type stuckNet struct{ fakeNet }

func (*stuckNet) Internal(ctx context.Context, _ bool) (Circuit, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestPreparingEnds: while the network is down, nothing is prepared without end.
func TestPreparingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Network: &stuckNet{}, Log: slog.New(slog.DiscardHandler), Private: true})
		defer c.Close()
		s := newService(t)
		d := keepAs(c, 1, &s.inner)
		c.meetAgain(d, false)
		c.meetAgain(d, false)
		time.Sleep(2*aheadRest + connectTimeout)
		if synctest.Wait(); d.ahead.preparing || d.ahead.next != nil {
			t.Error("it is still being prepared")
		}
	})
}
