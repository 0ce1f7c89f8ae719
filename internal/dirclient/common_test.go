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

// missing makes every cache answer that it has none of the documents with a path, while it is true.
func (w *world) missing(prefix string) *atomic.Bool {
	var missing atomic.Bool
	missing.Store(true)
	w.fault = func(_ int, path string, to io.Writer) bool {
		if !missing.Load() || !strings.HasPrefix(path, prefix) {
			return false
		}
		io.WriteString(to, "HTTP/1.0 404 Not found\r\n\r\n")
		return true
	}
	return &missing
}

// TestCommonWaits: a client that looks like C tor's asks another cache a whole number of seconds after the one before, one second at first, and
// an authority after six.
func TestCommonWaits(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		missing := w.missing(consensusPath)
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		began := time.Now()
		stop := run(t, c)
		defer stop()
		time.Sleep(40 * time.Second)
		missing.Store(false)
		wait(t, c)
		var others, authorities []time.Duration
		for _, r := range w.seen() {
			if !strings.HasPrefix(r.path, consensusPath) {
				continue
			}
			if d := r.at.Sub(began); r.query.Authority {
				authorities = append(authorities, d)
			} else {
				others = append(others, d)
			}
		}
		for _, k := range []struct {
			what  string
			at    []time.Duration
			first time.Duration
			least time.Duration
		}{{"other caches", others, 0, time.Second}, {"authorities", authorities, 6 * time.Second, 6 * time.Second}} {
			if len(k.at) < 2 || k.at[0] != k.first {
				t.Fatalf("%s are asked at %v", k.what, k.at)
			}
			for i := range k.at[1:] {
				d, last := k.at[i+1]-k.at[i], time.Duration(0)
				if i > 0 {
					last = k.at[i] - k.at[i-1]
				}
				if d%time.Second != 0 || d < k.least || d >= max(3*last, k.least+time.Second) {
					t.Errorf("%s are asked at %v", k.what, k.at)
				}
			}
		}
	})
}

// TestCommonRenewal: with a consensus in time, such a client looks once a minute whether it should ask again.
func TestCommonRenewal(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		missing := w.missing(consensusPath)
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
		{true, 2500 * time.Millisecond, 2}, {true, 1500 * time.Millisecond, 2}, {true, 500 * time.Millisecond, 1}, {false, 2500 * time.Millisecond, 2}, {false, 500 * time.Millisecond, 1},
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
			got := asked.Load() - 1
			if c.common && c.after > 2*time.Second && got == c.want+1 {
				got-- // the third is asked two or three seconds after the first
			}
			if got != c.want {
				t.Errorf("common %v, streams after %v: %d caches were asked, not %d", c.common, c.after, got, c.want)
			}
		})
	}
}
