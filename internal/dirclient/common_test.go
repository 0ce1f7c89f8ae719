package dirclient

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asks returns when each request for a consensus came.
func (w *world) asks() []time.Time {
	var out []time.Time
	for _, r := range w.seen() {
		if strings.HasPrefix(r.path, "/tor/status-vote/") {
			out = append(out, r.at)
		}
	}
	return out
}

// missing makes every cache answer that it has no consensus, while it is true.
func (w *world) missing() *atomic.Bool {
	var missing atomic.Bool
	missing.Store(true)
	w.fault = func(_ int, path string, to io.Writer) bool {
		if !missing.Load() || !strings.HasPrefix(path, "/tor/status-vote/") {
			return false
		}
		io.WriteString(to, "HTTP/1.0 404 Not found\r\n\r\n")
		return true
	}
	return &missing
}

// TestCommonWaits: a client that looks like C tor's asks another cache a whole number of seconds after
// one that has no consensus, one second at first.
func TestCommonWaits(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		missing := w.missing()
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		stop := run(t, c)
		defer stop()
		time.Sleep(20 * time.Second)
		missing.Store(false)
		wait(t, c)
		at := w.asks()
		if len(at) < 4 {
			t.Fatalf("%d requests", len(at))
		}
		for i := range at[1:] {
			d, last := at[i+1].Sub(at[i]), time.Duration(0)
			if i > 0 {
				last = at[i].Sub(at[i-1])
			}
			if d%time.Second != 0 || d < time.Second || i == 0 && d != time.Second || i > 0 && d >= max(3*last, 2*time.Second) {
				t.Errorf("request %d comes %v after the one before, which came after %v", i+2, d, last)
			}
		}
	})
}

// TestCommonRenewal: with a consensus in time, such a client looks once a minute whether it should ask again.
func TestCommonRenewal(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		missing := w.missing()
		missing.Store(false)
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		missing.Store(true)
		_, end := refreshWindow(c.Directory(), 0)
		time.Sleep(time.Until(end.Add(5 * time.Minute)))
		at := w.asks()[1:]
		for i := range at[1:] {
			if d := at[i+1].Sub(at[i]); d < time.Minute {
				t.Errorf("request %d comes %v after the one before", i+2, d)
			}
		}
		if len(at) < 3 {
			t.Errorf("%d requests", len(at))
		}
	})
}

// late opens each stream after a while, and counts them.
type late struct {
	*world
	after time.Duration
	begun atomic.Int32
}

func (l *late) OpenDir(ctx context.Context, q Query) (Stream, error) {
	l.begun.Add(1)
	select {
	case <-time.After(l.after):
		return l.world.OpenDir(ctx, q)
	case <-ctx.Done():
		return Stream{}, context.Cause(ctx)
	}
}

// TestCommonConnects: at its start, such a client goes to another cache when the circuit to the first takes a
// second, and to none more when it has a stream.
func TestCommonConnects(t *testing.T) {
	n := small(t, 60)
	for _, c := range []struct {
		common bool
		after  time.Duration
		want   int32
	}{
		{true, 2500 * time.Millisecond, 3}, {true, 1500 * time.Millisecond, 2}, {true, 500 * time.Millisecond, 1}, {false, 2500 * time.Millisecond, 2}, {false, 500 * time.Millisecond, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			var answered atomic.Bool
			w.delay = func(_ int, path string) time.Duration {
				if !strings.HasPrefix(path, "/tor/status-vote/") || answered.Swap(true) {
					return 0
				}
				return 2 * time.Second // it is no reason to ask another one
			}
			l := &late{world: w, after: c.after}
			var asked atomic.Int32
			client := New(Config{Network: n.Network, Dialer: l, Common: c.common, Progress: func(p Progress) {
				if p.Phase == PhaseMicrodescs && asked.Load() == 0 {
					asked.Store(l.begun.Load())
				}
			}})
			stop := run(t, client)
			defer stop()
			wait(t, client)
			// The certificates have a stream of their own.
			if got := asked.Load() - 1; got != c.want {
				t.Errorf("common %v, streams after %v: %d caches were asked, not %d", c.common, c.after, got, c.want)
			}
		})
	}
}
