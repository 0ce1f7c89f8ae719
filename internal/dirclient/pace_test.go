package dirclient

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// took returns when requests for some documents came after a time.
func (w *world) took(prefix string, after time.Time) []time.Time {
	var out []time.Time
	for _, r := range w.seen() {
		if strings.HasPrefix(r.path, prefix) && r.at.After(after) {
			out = append(out, r.at)
		}
	}
	return out
}

const (
	consensusPath = "/tor/status-vote/"
	microPath     = "/tor/micro/"
)

// renewals runs a client for six hours, with a new consensus in each in which some relays are others. It returns when the client was ready.
func renewals(t *testing.T, cfg Config, relays int, churn float64) (ready time.Time, w *world) {
	t.Helper()
	n := small(t, relays)
	w = newWorld(n)
	cfg.Network, cfg.Dialer = n.Network, w
	c := New(cfg)
	stop := run(t, c)
	defer stop()
	wait(t, c)
	ready = time.Now()
	for range 6 {
		if time.Sleep(time.Until(n.ValidAfter.Add(time.Hour))); w.publish(churn, false) != nil {
			t.Fatal("no consensus")
		}
	}
	return ready, w
}

// TestCommonTicks: with a directory, a client that looks like C tor's asks for a consensus at ticks of one minute, and for
// a few new microdescriptors nine seconds after such a tick, not at once: at a tick of its own.
func TestCommonTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready, w := renewals(t, Config{Common: true}, 150, 0.01) // one of them does not matter for whether circuits can be built
		cons, micro := w.took(consensusPath, ready), w.took(microPath, ready)
		if len(cons) < 2 || len(micro) != len(cons) {
			t.Fatalf("%d consensuses, %d requests for microdescriptors", len(cons), len(micro))
		}
		for i, at := range cons {
			if at.Sub(ready)%time.Minute != time.Second { // the client began at the same time: it looks after a second, and then each minute
				t.Errorf("a consensus is asked for %v after the client was ready", at.Sub(ready))
			}
			if d := micro[i].Sub(at); d != 9*time.Second {
				t.Errorf("microdescriptors are asked for %v after it", d)
			}
		}
	})
}

// TestCommonLacks: what a guard lacks is asked for at once, unless nobody uses the client.
func TestCommonLacks(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ready, w := renewals(t, Config{Common: true, Idle: func() bool { return idle }, Lacks: func(d *netdir.Directory) bool { return len(d.MissingMicrodescs()) > 0 }}, 150, 0.01)
			cons, micro := w.took(consensusPath, ready), w.took(microPath, ready)
			if idle && len(micro) > 0 || !idle && (len(cons) < 2 || len(micro) != len(cons)) {
				t.Fatalf("idle %v: %d consensuses, %d requests for microdescriptors", idle, len(cons), len(micro))
			}
			for i := range micro {
				if d := micro[i].Sub(cons[i]); d > time.Second {
					t.Errorf("it is asked for after %v", d)
				}
			}
		})
	}
}

// TestCommonIdle: while nobody uses it, such a client asks for new consensuses and no microdescriptors; at the first tick after that, it does.
func TestCommonIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle atomic.Bool
		idle.Store(true)
		n := small(t, 150)
		w := newWorld(n)
		c := New(Config{Network: n.Network, Dialer: w, Common: true, Idle: idle.Load})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		ready := time.Now()
		for range 4 {
			if time.Sleep(time.Until(n.ValidAfter.Add(time.Hour))); w.publish(0.01, false) != nil {
				t.Fatal("no consensus")
			}
		}
		if n := len(w.took(consensusPath, ready)); n < 1 {
			t.Errorf("%d consensuses", n)
		}
		if n := len(w.took(microPath, ready)); n != 0 || !c.Ready(c.Directory(), c.now()) {
			t.Errorf("%d requests for microdescriptors of an idle client", n)
		}
		idle.Store(false)
		time.Sleep(time.Minute + time.Second)
		micro := w.took(microPath, ready)
		if len(micro) == 0 {
			t.Error("no request after that")
		}
		for _, at := range micro { // several, if caches have no more what the client's consensus lists
			if at.Sub(ready)%time.Minute != greedyTick {
				t.Errorf("after that, requests %v, ready at %v", micro, ready)
			}
		}
	})
}

// TestCommonNeedsMicrodescs: a consensus with which no circuit can be built without new microdescriptors makes such a client
// ask for them at once, unless nobody uses it and the old directory serves.
func TestCommonNeedsMicrodescs(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ready, w := renewals(t, Config{Common: true, Idle: func() bool { return idle }}, 60, 1)
			cons, micro := w.took(consensusPath, ready), w.took(microPath, ready)
			switch {
			case idle && len(micro) > 0:
				t.Errorf("%d requests for microdescriptors while the old directory serves", len(micro))
			case !idle && (len(micro) < len(cons) || micro[len(micro)-1].Sub(cons[len(cons)-1]) > time.Second):
				t.Errorf("consensuses of others come at %v, and microdescriptors are asked for at %v", cons, micro)
			}
		})
	}
}

// TestCommonLate: a client that looks like C tor's and has bridges renews its consensus in its last minutes.
func TestCommonLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := small(t, 60)
		w := newWorld(n)
		c := New(Config{Network: n.Network, Dialer: w, Common: true, Late: true})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		for range 100 { // from 52.6 minutes after the half of its validity to two minutes before its end, rounded up
			if left := c.latest.ValidUntil().Sub(c.refreshTime()); left < 2*time.Minute || left > 8*time.Minute {
				t.Fatalf("it is renewed %v before its end", left)
			}
		}
	})
}
