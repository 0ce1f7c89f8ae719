package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestSilentLink: a link on which a first hop does not answer for as long as a circuit may take
// at first is not used for other circuits: another one is opened. A circuit or a directory
// request that ends earlier says nothing about its link, which goes on to carry the others'
// streams: else strangers who can make circuits end could have clients open link after link to
// their guard. Neither says that the guard is down.
func TestSilentLink(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var dead sync.RWMutex
	relay := simnet.New(t, simnet.Options{}).Target
	c, use := impatient(t, relay, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		conn, err := simnet.Dial(ctx, addr)
		return mute{conn, &dead}, err
	})
	use.Cancelled(time.Now())
	c.times.use(func(e *cbt.Estimator) {
		p := cbt.DefaultParams()
		p.InitialTimeout = 2 * minUsage
		e.SetParams(p)
	})
	old, err := c.link(ctx, relay)
	if err != nil {
		t.Fatal(err)
	}
	other, err := circuit.Create(ctx, c.env, old, relay, circuit.HopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A path of three hops may take as long as the initial timeout, one of one hop half of it.
	build := func(ctx context.Context, hops int) error {
		use, err := c.guards.PickBridge(relay.RSA, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p := &path.Path{Guard: use, Hops: make([]path.Hop, hops)}
		for i := range p.Hops {
			p.Hops[i].Target = relay
		}
		_, err = (&building{Client: c, path: p, life: lifeOf(c, p), start: time.Now()}).run(ctx)
		return err
	}
	reachable := func(when string) {
		t.Helper()
		if g := c.guards.Status(time.Now()).Guards; len(g) != 1 || g[0].Reachable != "maybe" {
			t.Errorf("%s: %+v", when, g)
		}
	}
	dead.Lock()
	gone, giveUp := context.WithCancel(ctx)
	giveUp()
	if err := build(gone, 3); !errors.Is(err, context.Canceled) || c.chans.Find(relay) != old {
		t.Errorf("after a circuit that was given up: %v", err)
	}
	late, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if err := build(late, 3); !errors.Is(err, context.DeadlineExceeded) || c.chans.Find(relay) != old {
		t.Errorf("after a circuit for which nobody had the time: %v", err)
	}
	dir, end := context.WithTimeoutCause(ctx, 50*time.Millisecond, errBuildTimeout)
	defer end()
	use, err = c.guards.PickBridge(relay.RSA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newCaches(c).get(dir, relay, use); !errors.Is(err, errBuildTimeout) || c.chans.Find(relay) != old {
		t.Errorf("after a directory circuit that came too late: %v", err)
	}
	if err := build(ctx, 1); !errors.Is(err, errBuildTimeout) || c.chans.Find(relay) != old {
		t.Errorf("after a short circuit, which may not take long: %v", err)
	}
	reachable("before the link is in doubt")
	if err := build(ctx, 3); !errors.Is(err, errBuildTimeout) || c.chans.Find(relay) != nil {
		t.Errorf("the silent link is still used, after %v", err)
	}
	reachable("after")
	dead.Unlock()
	if next, err := c.link(ctx, relay); err != nil || build(ctx, 1) != nil {
		t.Errorf("%v, %v", next, err)
	}
	s, err := stream.BeginDir(other.Last())
	if err != nil {
		t.Fatal("the link did not go on for what was on it:", err)
	}
	if _, err := io.WriteString(s, "echo"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 4)); err != nil {
		t.Error("the link did not go on for what was on it:", err)
	}
}
