package client

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
)

var errTooLate = fault.New(fault.Timeout, "too late")

// clocked is a client without a network. Its clock's seconds are half a second after those of the test's time, and its
// timeout is two seconds.
func clocked(t *testing.T) *Client {
	t.Helper()
	p := cbt.DefaultParams()
	p.InitialTimeout = 2 * time.Second
	c := &Client{log: slog.New(slog.DiscardHandler), times: buildTimes{e: cbt.New(p)}}
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	c.wg.Go(func() {
		for next := 500 * time.Millisecond; ; next = time.Second {
			select {
			case <-time.After(next):
				c.seconds.tick()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		c.wg.Wait()
	})
	return c
}

// TestWaitsEndLikeThose: a wait ends at the first second of the client's clock after C tor's multiple of the timeout. One for a
// circuit begins with the circuit, and is longer while no circuit is open; until there is one it has a bound of its own.
func TestWaitsEndLikeThose(t *testing.T) {
	for name, x := range map[string]struct {
		wait  cbt.Wait
		open  bool
		begin time.Duration // negative: it never does
		want  time.Duration
	}{
		"the service does not come":           {cbt.ServiceCame, true, 0, 7500 * time.Millisecond},
		"no answer to an introduction":        {cbt.IntroductionTaken, true, 0, 6500 * time.Millisecond},
		"no rendezvous point":                 {cbt.RendezvousEstablished, true, 0, 2500 * time.Millisecond},
		"an introduction point":               {cbt.IntroEstablished, true, 0, 4500 * time.Millisecond},
		"over a slow link":                    {cbt.IntroEstablished, true, 8 * time.Second, 12500 * time.Millisecond},
		"a circuit to a rendezvous point":     {cbt.RendezvousReached, true, 3 * time.Second, 7500 * time.Millisecond},
		"one that is extended":                {cbt.Extended, true, 0, 2500 * time.Millisecond},
		"there is none to extend":             {cbt.RendezvousReached, true, -1, 9500 * time.Millisecond},
		"no circuit is open, as all are slow": {cbt.Extended, false, 0, 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clocked(t)
				c.underway.second(x.open)
				began := time.Now()
				ctx, cancel := c.limit(t.Context(), x.wait, 9*time.Second, errTooLate)
				defer cancel()
				if x.begin >= 0 {
					time.AfterFunc(x.begin, func() { beginPatience(ctx) })
				}
				<-ctx.Done()
				if took := time.Since(began); took != x.want {
					t.Errorf("after %v, not %v", took, x.want)
				}
				if err := fault.Ended(ctx, "wait: %w", context.Cause(ctx)); !errors.Is(err, errTooLate) || !fault.Is(err, fault.Timeout) {
					t.Error(err)
				}
			})
		})
	}
}

// TestNoCircuitIsOpen: while no circuit is open, one may take as long as those that are measured.
func TestNoCircuitIsOpen(t *testing.T) {
	c := clocked(t)
	c.times.use(func(e *cbt.Estimator) {
		p := cbt.DefaultParams()
		p.MinCircuits = 1
		*e = *cbt.New(p)
		for i := range 100 {
			at := time.Unix(int64(i), 0)
			e.HopBuilt(3, 3, at, at.Add(time.Duration(900+i)*time.Millisecond), false)
		}
	})
	now := time.Now()
	p := &patience{wait: cbt.RendezvousReached}
	p.began.Store(&now)
	if c.over(p, 0, now.Add(20*time.Second)) || !c.over(p, 0, now.Add(time.Minute)) {
		t.Error("no circuit is open, and one has less time than those that are measured, or more")
	}
	c.underway.second(true)
	if c.over(p, 0, now.Add(2*time.Second)) || !c.over(p, 0, now.Add(20*time.Second)) {
		t.Error("another circuit is open")
	}
}

// TestClockStands: waits end although the pool's clock stands.
func TestClockStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{log: slog.New(slog.DiscardHandler), times: buildTimes{e: cbt.New(cbt.DefaultParams())}}
		ctx, cancel := c.limit(t.Context(), cbt.RendezvousReached, 9*time.Second, errTooLate)
		defer cancel()
		began := time.Now()
		if <-ctx.Done(); time.Since(began) > 9*time.Second+noTick {
			t.Errorf("after %v", time.Since(began))
		}
		c.wg.Wait()
	})
}

// TestLateCircuitIsMeasured: a circuit that is late for its service is built on, if that teaches the client anything; one whose
// service has gone is not.
func TestLateCircuitIsMeasured(t *testing.T) {
	for name, x := range map[string]struct {
		learned, gone bool
		goesOn        bool
	}{"learned": {true, false, true}, "learning": {false, false, false}, "gone": {true, true, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clocked(t)
				if x.learned {
					c.times.use(func(e *cbt.Estimator) {
						p := cbt.DefaultParams()
						p.MinCircuits = 0
						p.InitialTimeout = 2 * time.Second
						e.SetParams(p)
					})
				}
				c.circs.add(&OpenCircuit{})
				parent, leave := context.WithCancel(t.Context())
				ctx, cancel := c.limit(parent, cbt.IntroEstablished, time.Minute, errTooLate)
				if x.gone {
					time.AfterFunc(time.Second, leave)
				}
				defer leave()
				var given error
				_, err := c.patiently(ctx, func(ctx context.Context, asked func()) (*OpenCircuit, error) {
					asked()
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						given = context.Cause(ctx)
					}
					return nil, errTooLate
				})
				if fault.Is(err, fault.Timeout) == x.gone {
					t.Error(err)
				}
				cancel()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if (given == nil) != x.goesOn {
					t.Errorf("it was given up: %v", given)
				}
			})
		})
	}
}

// TestTimeBeginsWithTheCircuit: when the link to its guard is open, or when a circuit of the pool is taken to be extended.
func TestTimeBeginsWithTheCircuit(t *testing.T) {
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, simnet.Dial)
	relay := simnet.New(t, simnet.Options{}).Target
	p := &path.Path{Hops: []path.Hop{{Target: relay}}}
	linked := false
	b := &building{Client: c, path: p, life: lifeOf(c, p), start: time.Now(), linked: func() { linked = true }}
	circ, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if circ.Close(); !linked {
		t.Error("nobody was told of the link")
	}
	s := &stubs{c: c, m: channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial), relay: relay}
	t.Cleanup(s.m.Close)
	c.pool.Store(pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, s))
	close(c.poolReady)
	ctx, cancel := c.limit(t.Context(), cbt.RendezvousReached, time.Minute, errTooLate)
	defer cancel()
	if patienceOf(ctx).began.Load() != nil {
		t.Error("it began before there was a circuit")
	}
	gone := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{9}}}
	if _, err := (clientNetwork{c}).To(ctx, gone, nil); err == nil {
		t.Error("a circuit to nowhere")
	}
	if patienceOf(ctx).began.Load() == nil {
		t.Error("a circuit was extended, and its time did not begin")
	}
	before := patienceOf(ctx).asked.Load()
	_, _ = c.patiently(ctx, func(context.Context, func()) (*OpenCircuit, error) { return nil, errFails })
	if p := patienceOf(ctx); p.began.Load() != nil || !p.asked.Load().After(*before) {
		t.Error("the next try has no time of its own")
	}
}
