package hsclient

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// openCirc is a circuit without an end that counts how often it was closed.
type openCirc struct {
	closing
	engine circuit.Circuit
}

func (c *openCirc) Engine() *circuit.Circuit { return &c.engine }

// aheadNet gives circuits to introduction points, and counts them.
type aheadNet struct {
	fakeNet
	made []*openCirc
}

func (f *aheadNet) To(context.Context, linkspec.Target, []linkspec.Spec) (Circuit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := new(openCirc)
	f.made = append(f.made, c)
	return c, nil
}

// aheadClient has a client that keeps a descriptor with two introduction points.
func aheadClient(t *testing.T) (*Client, *aheadNet, *cached) {
	t.Helper()
	s := newService(t)
	second := s.inner.Points[0]
	second.Auth = ident.Ed25519ID{10}
	s.inner.Points = append(s.inner.Points, second)
	f := &aheadNet{}
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), Private: true})
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
	time.Sleep(aheadRest) // virtual
	synctest.Wait()
}

// TestNextIsPrepared: after the second meeting of a service within a short time, and not
// after the first, a circuit to an introduction point is there for the next one, once.
func TestNextIsPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, d := aheadClient(t)
		defer c.Close()
		meetOnce(c, d)
		if len(f.made) != 0 {
			t.Fatal("a circuit is built ahead after one meeting")
		}
		time.Sleep(aheadWithin)
		meetOnce(c, d)
		if len(f.made) != 0 {
			t.Fatal("a circuit is built ahead after two meetings that were far apart")
		}
		c.meetAgain(d, false)
		if synctest.Wait(); len(f.made) != 0 {
			t.Error("the circuit is built while the stream is being opened")
		}
		meetOnce(c, d)
		meetOnce(c, d)
		if len(f.made) != 1 {
			t.Fatalf("%d circuits are built ahead", len(f.made))
		}
		for range 20 { // the order is random but for the first
			points, _ := c.usable(d)
			if len(points) != 2 || points[0].Auth != d.ahead.next.point {
				t.Fatal("the point of the circuit is not the first to try")
			}
		}
		points, _ := c.usable(d)
		if circ, _ := c.takeNext(d, points[1], false); circ != nil {
			t.Error("the circuit is taken for another point")
		}
		if circ, _ := c.takeNext(d, points[0], false); circ != f.made[0] {
			t.Error("the circuit is not taken")
		}
		if circ, rend := c.takeNext(d, points[0], false); circ != nil || rend != nil {
			t.Error("the circuit is taken twice")
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); f.made[0].n.Load() != 0 {
			t.Error("a circuit that was taken is closed")
		}
	})
}

// TestNextRendezvous: a rendezvous point that was prepared is taken with its circuit, but
// not for a stream that needs better relays, and it ends with what it is prepared for.
func TestNextRendezvous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, d := aheadClient(t)
		defer c.Close()
		p := &d.inner.Points[0]
		keep := func(stable bool) (intro, at *openCirc, rend *rendezvous) {
			intro, at = new(openCirc), new(openCirc)
			rend = &rendezvous{circ: at, state: established}
			if !c.keepNext(d, &next{intro: intro, point: p.Auth, rend: rend, stable: stable}) {
				t.Fatal("it is not kept")
			}
			return
		}
		for _, v := range []struct{ prepared, wanted bool }{{false, false}, {true, true}, {true, false}} {
			intro, at, rend := keep(v.prepared)
			if gotIntro, got := c.takeNext(d, p, v.wanted); gotIntro != intro || got != rend || at.n.Load() != 0 {
				t.Errorf("%+v: it is not taken", v)
			}
		}
		intro, at, _ := keep(false)
		if gotIntro, got := c.takeNext(d, p, true); gotIntro != intro || got != nil || at.n.Load() != 1 {
			t.Error("a stream that needs stable relays gets others")
		}
		intro, at, _ = keep(false)
		c.NewIdentity()
		if synctest.Wait(); intro.n.Load() != 1 || at.n.Load() != 1 {
			t.Error("a circuit outlives a new identity")
		}
	})
}

// TestNextEnds: a circuit that was built ahead closes when nobody needs it, with
// its descriptor, when the configuration forbids its point, and with the client.
func TestNextEnds(t *testing.T) {
	for name, end := range map[string]func(*Client, *aheadNet, *cached){
		"idle":             func(c *Client, _ *aheadNet, _ *cached) { time.Sleep(10 * time.Minute) },
		"a new identity":   func(c *Client, _ *aheadNet, _ *cached) { c.NewIdentity() },
		"the memory":       func(c *Client, _ *aheadNet, d *cached) { c.evict(d) },
		"a newer one":      func(c *Client, _ *aheadNet, d *cached) { keepAs(c, d.blinded[0], d.inner) },
		"the client's end": func(c *Client, _ *aheadNet, _ *cached) { c.Close() },
		"its relay is excluded": func(c *Client, f *aheadNet, d *cached) {
			f.refused = map[ident.RSAID]bool{{1}: true}
			for i := range d.inner.Points {
				if circ, _ := c.takeNext(d, &d.inner.Points[i], false); circ != nil {
					circ.Close() // once too often
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f, d := aheadClient(t)
				defer c.Close()
				meetOnce(c, d)
				meetOnce(c, d)
				end(c, f, d)
				if synctest.Wait(); len(f.made) != 1 || f.made[0].n.Load() != 1 {
					t.Errorf("%d circuits, the first closed %d times", len(f.made), f.made[0].n.Load())
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
		time.Sleep(aheadRest)
		if synctest.Wait(); len(f.made) > 0 && f.made[0].n.Load() != 1 || d.ahead.next != nil {
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
		time.Sleep(aheadRest)
		if synctest.Wait(); len(f.made) != maxAhead {
			t.Errorf("%d circuits are built ahead", len(f.made))
		}
	})
}
