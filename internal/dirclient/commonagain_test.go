package dirclient

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// digestsOf returns the digests that a request names.
func digestsOf(r seenRequest) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(r.path, "/tor/micro/d/"), ".z"), "-")
}

// TestCommonLacking: what a cache lacks is not asked for at once elsewhere, but when the next answer comes, or at a tick of ten seconds, together
// with all else that is missing; and each digest waits longer after each cache. The caches that lack some are told so.
func TestCommonLacking(t *testing.T) {
	n := small(t, 300)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		missing := w.missing(microPath)
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		began := time.Now()
		stop := run(t, c)
		defer stop()
		time.Sleep(95 * time.Second)
		missing.Store(false)
		wait(t, c)
		synctest.Wait()
		last := map[string]time.Time{}
		times := map[time.Duration]int{}
		for _, r := range w.seen() {
			if !strings.HasPrefix(r.path, microPath) {
				continue
			}
			at := r.at.Sub(began)
			times[at]++
			if at%greedyTick != 0 {
				t.Errorf("a request comes after %v", at)
			}
			for _, d := range digestsOf(r) {
				if before := last[d]; !before.IsZero() && r.at.Sub(before) < greedyTick {
					t.Errorf("one is asked for again after %v", r.at.Sub(before))
				}
				last[d] = r.at
			}
		}
		if times[0] != 3 || len(times) < 4 { // pauses of 1, up to 2, up to 5, up to 14 seconds and so on
			t.Errorf("requests come at %v", times)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		lacked := 0
		for _, errs := range w.reports {
			for _, err := range errs {
				if errors.Is(err, ErrLacks) {
					lacked++
				}
			}
		}
		if lacked < times[0] {
			t.Errorf("%d reports of caches that lack some", lacked)
		}
	})
}

// TestCommonLackingSome: while there are too few, each answer that brings some has the rest asked for, of which none is asked for
// twice in a second.
func TestCommonLackingSome(t *testing.T) {
	n := small(t, 2000)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.delay = func(cache int, path string) time.Duration {
			if strings.HasPrefix(path, microPath) {
				return time.Duration(cache+1) * 1500 * time.Millisecond
			}
			return 0
		}
		var first atomic.Bool
		w.fault = func(_ int, path string, to io.Writer) bool {
			if !strings.HasPrefix(path, microPath) || first.Swap(true) {
				return false
			}
			io.WriteString(to, "HTTP/1.0 404 Not Found\r\n\r\n")
			return true
		}
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		began := time.Now()
		stop := run(t, c)
		defer stop()
		wait(t, c)
		time.Sleep(10 * time.Second)
		var at []time.Duration
		seen := map[string]bool{}
		for _, r := range w.seen() {
			if !strings.HasPrefix(r.path, microPath) {
				continue
			}
			at = append(at, r.at.Sub(began).Round(time.Millisecond))
			for _, d := range digestsOf(r) {
				if seen[d] && r.at.Sub(began) < time.Second {
					t.Error("one is asked for twice")
				}
				seen[d] = true
			}
		}
		if len(seen) != 2000 || len(at) < 5 || at[4] < 3*time.Second || at[4] > 6*time.Second {
			t.Errorf("%d digests, requests at %v", len(seen), at)
		}
	})
}

// TestCommonStall: an answer may rest for five minutes, and the renewal of a consensus asks nobody else meanwhile.
func TestCommonStall(t *testing.T) {
	n := small(t, 60)
	for _, common := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			var stalls atomic.Bool
			closed := make(chan time.Time, 100)
			w.fault = func(_ int, path string, to io.Writer) bool {
				if !stalls.Load() || !strings.HasPrefix(path, consensusPath) {
					return false
				}
				io.WriteString(to, "HTTP/1.0 200 OK\r\n")
				_, _ = to.(io.Reader).Read(make([]byte, 1)) // until the client closes the stream
				closed <- time.Now()
				return true
			}
			c := New(Config{Network: n.Network, Dialer: w, Common: common})
			stop := run(t, c)
			wait(t, c)
			stalls.Store(true)
			end := <-closed
			stop()
			at := w.asks()
			held := end.Sub(at[1])
			if common && (held != commonStall || len(at) != 2) {
				t.Errorf("it is given up after %v; requests at %v", held, at)
			}
			if !common && held.Round(time.Second) != consensusTimeout {
				t.Errorf("fast: it is given up after %v", held)
			}
		})
	}
}

// TestRetry: while there is no directory, pauses grow without end, and whoever wants one has it asked for at once; but not more often
// than once a second.
func TestRetry(t *testing.T) {
	n := small(t, 60)
	for _, common := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.missing(consensusPath)
			c := New(Config{Network: n.Network, Dialer: w, Common: common})
			stop := run(t, c)
			defer stop()
			time.Sleep(50*time.Hour + time.Millisecond)
			before := len(w.asks())
			c.Retry()
			synctest.Wait()
			if got := len(w.asks()) - before; got == 0 {
				t.Errorf("common %v: nobody is asked", common)
			}
			before = len(w.asks())
			for range 1000 {
				c.Retry()
				time.Sleep(10 * time.Millisecond)
			}
			if got := len(w.asks()) - before; got < 8 || got > 11*Attempts {
				t.Errorf("common %v: %d requests in ten seconds", common, got)
			}
		})
	}
}

// TestBridgeIsAskedOnce: no second request goes to a bridge beside one that it has.
func TestBridgeIsAskedOnce(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.delay = func(_ int, path string) time.Duration {
			if strings.HasPrefix(path, consensusPath) {
				return 20 * time.Second
			}
			return 0
		}
		c := New(Config{Network: n.Network, Dialer: w, Common: true, Late: true})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		if at := w.asks(); len(at) != 1 {
			t.Errorf("requests at %v", at)
		}
	})
}

// dripping makes caches answer requests with a path, as long as drips says so, with a byte a minute for an hour.
func (w *world) dripping(path string, drips func(n int32) bool) {
	var n atomic.Int32
	w.fault = func(_ int, p string, to io.Writer) bool {
		if !strings.HasPrefix(p, path) || !drips(n.Add(1)) {
			return false
		}
		io.WriteString(to, "HTTP/1.0 200 OK\r\n\r\n")
		for range 100 {
			time.Sleep(time.Minute)
			if _, err := io.WriteString(to, "n"); err != nil {
				break
			}
		}
		return true
	}
}

// TestStartIsNotHeldUp: caches that begin to answer and then send a byte now and then hold a start up for a minute and a half each, or for half of one when they are
// asked for certificates, though requests for a consensus last longer; and so do as many as may be asked at a time.
func TestStartIsNotHeldUp(t *testing.T) {
	n := small(t, 60)
	for _, x := range []struct {
		path   string
		caches int32
		want   time.Duration
	}{{consensusPath, 1, consensusTimeout}, {consensusPath, 4, 4 * consensusTimeout}, {"/tor/keys/", 1, requestTimeout}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.dripping(x.path, func(n int32) bool { return n <= x.caches })
			c := New(Config{Network: n.Network, Dialer: w, Common: true})
			began := time.Now()
			stop := run(t, c)
			defer stop()
			wait(t, c)
			// Two may have been asked at one time.
			if took := time.Since(began); took < x.want/2 || took > x.want+time.Duration(10*x.caches)*time.Second {
				t.Errorf("%d at %s: it took %v", x.caches, x.path, took)
			}
			time.Sleep(2 * time.Minute) // the caches notice that their streams are closed
		})
	}
}

// TestCommonGuardsLacking: while a guard's microdescriptor is missing, answers that come have nothing asked for that is there or on its way.
func TestCommonGuardsLacking(t *testing.T) {
	n := small(t, 4000)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		var asked atomic.Int32
		w.delay = func(_ int, path string) time.Duration {
			if strings.HasPrefix(path, microPath) {
				return time.Duration(asked.Add(1)) * 1500 * time.Millisecond
			}
			return 0
		}
		c := New(Config{Network: n.Network, Dialer: w, Common: true, Lacks: func(d *netdir.Directory) bool { return len(d.MissingMicrodescs()) > 0 }})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		time.Sleep(2 * time.Minute)
		seen := map[string]int{}
		for _, r := range w.seen() {
			if strings.HasPrefix(r.path, microPath) {
				for _, d := range digestsOf(r) {
					seen[d]++
				}
			}
		}
		for _, n := range seen {
			if n > 1 {
				t.Fatal("one is asked for more than once")
			}
		}
		if len(seen) != 4000 {
			t.Errorf("%d were asked for", len(seen))
		}
	})
}

// TestCommonAges: when a consensus becomes too old for circuits, the client asks as at a start, however long the pauses between requests for a newer
// one have become.
func TestCommonAges(t *testing.T) {
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
		end := c.Directory().ValidUntil().Add(24 * time.Hour)
		time.Sleep(time.Until(end))
		if err := w.publish(0, false); err != nil {
			t.Fatal(err)
		}
		before := len(w.asks())
		time.Sleep(longestSleep + bootAuthority*time.Second)
		if got := len(w.asks()) - before; got < 3 {
			t.Errorf("%d requests after it has become too old", got)
		}
	})
}
