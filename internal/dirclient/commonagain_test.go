package dirclient

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		var have atomic.Bool
		w.fault = func(_ int, path string, to io.Writer) bool {
			if have.Load() || !strings.HasPrefix(path, microPath) {
				return false
			}
			io.WriteString(to, "HTTP/1.0 404 Not Found\r\n\r\n")
			return true
		}
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		began := time.Now()
		stop := run(t, c)
		defer stop()
		time.Sleep(95 * time.Second)
		have.Store(true)
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
			w.missing()
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

// TestStartIsNotHeldUp: a cache that begins to answer and then sends a byte now and then holds a start up for a minute and a half, though its request lasts longer.
func TestStartIsNotHeldUp(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		var first atomic.Bool
		w.fault = func(_ int, path string, to io.Writer) bool {
			if !strings.HasPrefix(path, consensusPath) || first.Swap(true) {
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
		c := New(Config{Network: n.Network, Dialer: w, Common: true})
		began := time.Now()
		stop := run(t, c)
		defer stop()
		wait(t, c)
		if took := time.Since(began); took < consensusTimeout || took > consensusTimeout+5*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(2 * time.Minute) // the cache notices that its stream is closed
	})
}
