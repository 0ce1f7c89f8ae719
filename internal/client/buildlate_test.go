package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
)

// TestAbandonedCountsAsTimeout: a circuit that is given up counts once as one that timed out,
// also if the two times are equal, as they are until times were learned: else the first
// timeout would never grow on a network that needs more.
func TestAbandonedCountsAsTimeout(t *testing.T) {
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, simnet.Dial)
	c.times.use(func(e *cbt.Estimator) {
		p := cbt.DefaultParams()
		p.InitialTimeout = time.Second
		e.SetParams(p)
	})
	gate := make(chan struct{})
	defer close(gate)
	silent := simnet.New(t, simnet.Options{Onionskin: func() { <-gate }}).Target
	var b *building
	run := func(hops ...linkspec.Target) {
		t.Helper()
		p := &path.Path{}
		for _, h := range hops {
			p.Hops = append(p.Hops, path.Hop{Target: h})
		}
		b = &building{Client: c, path: p, life: lifeOf(c, p), start: time.Now()}
		if _, err := b.run(context.Background()); !errors.Is(err, errBuildTimeout) {
			t.Fatal(err)
		}
	}
	run(simnet.New(t, simnet.Options{}).Target, silent, silent)
	count := func() (n int) {
		c.times.use(func(e *cbt.Estimator) { n = e.Status().Timeouts })
		return n
	}
	if n := count(); n != 1 {
		t.Errorf("%d timeouts are counted, not 1", n)
	}
	b.usageTimedOut() // its timer ran out at the same time
	if n := count(); n != 1 {
		t.Errorf("%d timeouts are counted, not 1", n)
	}
	c.times.use(func(e *cbt.Estimator) { e.Traffic(time.Now().Add(time.Minute)) }) // others answer meanwhile
	if run(silent); count() != 2 {
		t.Errorf("a silent first hop is not counted, while others answer: %d timeouts", count())
	}
}
