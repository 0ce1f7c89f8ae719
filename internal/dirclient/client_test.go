package dirclient

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// small returns a made-up network whose consensus is valid when a bubble's
// clock begins.
func small(t testing.TB, relays int) *dirgen.Net {
	t.Helper()
	n, err := dirgen.New(dirgen.Options{Relays: relays, ValidAfter: time.Date(1999, 12, 31, 23, 50, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run starts a client and returns a function that stops it.
func run(t *testing.T, c *Client) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func wait(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestBootstrap(t *testing.T) {
	for _, coding := range []string{"", "deflate", "x-zstd", "x-tor-lzma"} {
		n := small(t, 300)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.coding = coding
			w.delay = func(int, string) time.Duration { return 10 * time.Millisecond }
			var mu sync.Mutex
			var steps []Progress
			c := New(Config{Network: n.Network, Dialer: w, Progress: func(p Progress) { mu.Lock(); defer mu.Unlock(); steps = append(steps, p) }})
			start := time.Now()
			stop := run(t, c)
			wait(t, c)
			stop()
			// The consensus, then certificates, then microdescriptors.
			if took := time.Since(start); took != 30*time.Millisecond {
				t.Errorf("%q: it took %v of the caches' time", coding, took)
			}
			if d := c.Directory(); d.Len() != 300 || d.Usability().Path < 0.6 {
				t.Errorf("%+v", d.Usability())
			}
			for _, r := range w.seen() {
				if r.host != cacheAddr(r.cache).String() {
					t.Errorf("%s: %q instead of the cache's address", r.path, r.host)
				}
			}
			if w.count("/tor/keys/") != 1 || w.count("/tor/status-vote/") != 1 || w.count("/tor/micro/") != 3 {
				t.Errorf("requests: %v", w.seen())
			}
			if len(steps) < 3 || steps[0].Phase != PhaseConsensus || steps[len(steps)-1].Phase != PhaseDone {
				t.Errorf("%+v", steps)
			}
		})
	}
}

// A consensus comes every hour; the client must ask for it in its window.
func TestRefreshSchedule(t *testing.T) {
	n := small(t, 60)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		c := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		stop := run(t, c)
		wait(t, c)
		for range 24 {
			time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
			if err := w.publish(0.05, true); err != nil {
				t.Fatal(err)
			}
			if d := c.Directory(); !d.Live(time.Now()) || len(d.MissingMicrodescs()) != 0 {
				t.Fatalf("valid until %v, %d microdescriptors are missing", d.ValidUntil(), len(d.MissingMicrodescs()))
			}
		}
		stop()
		fetches, diffs := 0, 0
		for _, r := range w.seen() {
			if !strings.Contains(r.path, "consensus") || r.query.Directory == nil {
				continue
			}
			fetches++
			d := r.query.Directory
			from, to := refreshWindow(d, 0)
			if from != d.FreshUntil().Add(45*time.Minute) || to != from.Add(75*time.Minute*7/8) {
				t.Fatalf("window %v to %v", from, to)
			}
			if r.at.Before(from) || r.at.After(to) {
				t.Errorf("asked at %v, outside %v to %v", r.at, from, to)
			}
			if r.header.Get("X-Or-Diff-From-Consensus") != "" {
				diffs++
			}
		}
		if fetches < 8 || fetches > 24 || diffs != fetches || w.count("/tor/keys/") != 1 {
			t.Errorf("%d fetches, %d of diffs, %d of certificates", fetches, diffs, w.count("/tor/keys/"))
		}
		again := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		if again.Load(); again.Directory() == nil || !again.Directory().ValidAfter().Equal(c.Directory().ValidAfter()) {
			t.Error("what diffs made is not on disk")
		}
	})
}

// lateCaches is a world of which only the last cache has microdescriptors; it
// has its turn when the others were asked.
type lateCaches struct{ *world }

func (l lateCaches) OpenDir(ctx context.Context, q Query) (Stream, error) {
	if q.Purpose == Microdescriptors && q.Attempt < Attempts {
		q.Avoid = append(slices.Clip(q.Avoid), cacheID(l.caches-1))
	}
	return l.world.OpenDir(ctx, q)
}

// TestCachesWithoutMicrodescs: a client starts at once although the caches of
// its directory have no microdescriptors yet, and one that has started bothers
// nobody else for those that it lacks.
func TestCachesWithoutMicrodescs(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.caches = Attempts + 1
		w.fault = func(cache int, path string, to io.Writer) bool {
			if late := strings.HasPrefix(path, "/tor/micro/") && cache < Attempts; !late {
				return false
			}
			_, _ = io.WriteString(to, "HTTP/1.0 404 Not Found\r\n\r\n")
			return true
		}
		c := New(Config{Network: n.Network, Dialer: lateCaches{w}})
		start := time.Now()
		stop := run(t, c)
		defer stop()
		wait(t, c)
		if took := time.Since(start); took != 0 {
			t.Errorf("it waited for %v", took)
		}
		batches := len(split(make([][32]byte, 60), maxBatch))
		if asked := w.count("/tor/micro/"); asked != batches*(Attempts+1) {
			t.Errorf("%d requests for %d batches", asked, batches)
		}
		time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
		if err := w.publish(0.05, false); err != nil {
			t.Fatal(err)
		}
		before := len(w.seen())
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		asked := 0
		for _, r := range w.seen()[before:] {
			if !strings.HasPrefix(r.path, "/tor/micro/") {
				continue
			}
			if asked++; r.query.Attempt >= Attempts {
				t.Error("a client that has enough asked beyond its caches")
			}
		}
		if asked == 0 {
			t.Error("nothing was missing")
		}
	})
}

func TestRestart(t *testing.T) {
	n := small(t, 200)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		c := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		stop := run(t, c)
		wait(t, c)
		synctest.Wait()
		stop()
		asked := len(w.seen())
		again := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		again.Load()
		if d := again.Directory(); d == nil || d.Usability().Have != 200 {
			t.Fatal("the cache is not enough")
		}
		stop = run(t, again)
		wait(t, again)
		synctest.Wait()
		stop()
		if len(w.seen()) != asked {
			t.Errorf("%d requests after a restart", len(w.seen())-asked)
		}
		// Two days later it serves no circuits, but says who is asked for the next one, and which relays are still the same.
		time.Sleep(48 * time.Hour)
		for range 51 {
			if err := w.publish(0.01, true); err != nil {
				t.Fatal(err)
			}
		}
		for _, cfg := range []Config{{}, {Common: true}} {
			cfg.Network, cfg.Dialer, cfg.Dir = n.Network, w, t.TempDir()
			if err := os.CopyFS(cfg.Dir, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			late := New(cfg)
			late.Load()
			if d := late.Directory(); d == nil || late.Ready(d, time.Now()) || d.Usability().Have != 200 {
				t.Fatal("a consensus of the day before yesterday is used, or lost")
			}
			asked = len(w.seen())
			stop = run(t, late)
			wait(t, late)
			synctest.Wait()
			stop()
			all := w.seen()[asked:]
			if q := all[0]; q.query.Directory == nil || q.header.Get("If-Modified-Since") == "" || q.header.Get("X-Or-Diff-From-Consensus") == "" {
				t.Errorf("it is asked for by %+v", q)
			}
			digests := 0
			for _, r := range all {
				if strings.HasPrefix(r.path, microPath) {
					digests += 1 + strings.Count(r.path, "-")
				}
			}
			if digests == 0 || digests > 150 {
				t.Errorf("%d microdescriptors of 200 are asked for", digests)
			}
		}
		// Four days later there is no diff any more, and after five nothing.
		time.Sleep(48 * time.Hour)
		late := New(Config{Network: n.Network, Dialer: w, Dir: dir})
		if late.Load(); late.consensusRequest().since.IsZero() || late.consensusRequest().diff != "" {
			t.Errorf("after four days: %+v", late.consensusRequest())
		}
		time.Sleep(28 * time.Hour)
		late = New(Config{Network: n.Network, Dialer: w, Dir: dir})
		if late.Load(); late.Directory() != nil {
			t.Error("a consensus of last week is kept")
		}
		// A cache that serves others has no use for an old one.
		relay := New(Config{Network: n.Network, Dialer: w, Dir: dir, Early: true})
		if relay.Load(); relay.Directory() != nil {
			t.Error("a relay keeps an old consensus")
		}
	})
}

// Each file, damaged in each way, is set aside and fetched anew.
func TestCorruptCache(t *testing.T) {
	n := small(t, 100)
	damage := map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return bytes.TrimRight(b[:len(b)*3/5], "\n") }, // not between documents
		"garbled":   func(b []byte) []byte { b[len(b)/2] ^= 0x81; b[len(b)/3] = 0; return b },
		"replaced":  func([]byte) []byte { return []byte("not a document\n") },
	}
	for _, file := range []string{consensusFile, certsFile, microFile} {
		for name, f := range damage {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(n)
				c := New(Config{Network: n.Network, Dialer: w, Dir: dir})
				stop := run(t, c)
				wait(t, c)
				synctest.Wait()
				stop()
				path := filepath.Join(dir, file)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				bad := f(b)
				if err := os.WriteFile(path, bad, 0o600); err != nil {
					t.Fatal(err)
				}
				c = New(Config{Network: n.Network, Dialer: w, Dir: dir})
				stop = run(t, c)
				wait(t, c)
				synctest.Wait()
				stop()
				if c.Directory().Usability().Have != 100 {
					t.Errorf("%s %s: %+v", name, file, c.Directory().Usability())
				}
				aside, err := os.ReadFile(path + asideSuffix)
				if err != nil || string(aside) != string(bad) {
					t.Errorf("%s %s: it was not set aside: %v", name, file, err)
				}
				last := New(Config{Network: n.Network, Dialer: w, Dir: dir})
				last.Load()
				if last.Directory() == nil || last.Directory().Usability().Have != 100 {
					t.Errorf("%s %s: the cache was not repaired", name, file)
				}
			})
		}
	}
}

// Caches that misbehave cost time, not truth.
func TestBadCaches(t *testing.T) {
	n := small(t, 150)
	other := small(t, 150) // of other authorities
	faults := map[string]func(path string, w io.Writer) bool{
		"closes":  func(string, io.Writer) bool { return true },
		"garbage": func(_ string, w io.Writer) bool { io.WriteString(w, "\x00\x01\x02 hello\r\n\r\n"); return true },
		"503":     func(_ string, w io.Writer) bool { io.WriteString(w, "HTTP/1.0 503 Busy\r\n\r\n"); return true },
		"short": func(_ string, w io.Writer) bool {
			io.WriteString(w, "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nabc")
			return true
		},
		"empty": func(_ string, w io.Writer) bool { io.WriteString(w, "HTTP/1.0 200 OK\r\n\r\n"); return true },
		"encoding": func(_ string, w io.Writer) bool {
			io.WriteString(w, "HTTP/1.0 200 OK\r\nContent-Encoding: x-zstd\r\n\r\nabc")
			return true
		},
		"huge": func(_ string, w io.Writer) bool {
			io.WriteString(w, "HTTP/1.0 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
			return true
		},
		"headers": func(_ string, w io.Writer) bool {
			io.WriteString(w, "HTTP/1.0 200 OK\r\n"+strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 100)+"\r\n")
			return true
		},
		"strangers": func(path string, w io.Writer) bool {
			if !strings.Contains(path, "consensus") {
				return false
			}
			io.WriteString(w, "HTTP/1.0 200 OK\r\n\r\n"+string(other.Consensus))
			return true
		},
		"forged": func(path string, w io.Writer) bool {
			if !strings.Contains(path, "consensus") {
				return false
			}
			io.WriteString(w, "HTTP/1.0 200 OK\r\n\r\n"+strings.Replace(string(n.Consensus), "Bandwidth=", "Bandwidth=9", 1))
			return true
		},
		"stalls": func(string, io.Writer) bool { time.Sleep(5 * time.Hour); return true },
	}
	for name, f := range faults {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.caches = 6
			w.fault = func(cache int, path string, out io.Writer) bool { return cache < 2 && f(path, out) }
			c := New(Config{Network: n.Network, Dialer: w})
			stop := run(t, c)
			start := time.Now()
			wait(t, c)
			took := time.Since(start)
			time.Sleep(10 * time.Minute)
			stop()
			if took > 5*time.Minute || c.Directory().Usability().Have != 150 {
				t.Errorf("%s: %v, %+v", name, took, c.Directory().Usability())
			}
			for cache, errs := range w.reports {
				for _, err := range errs {
					if cache >= 2 && err != nil {
						t.Errorf("%s: cache %d was blamed: %v", name, cache, err)
					}
				}
			}
			time.Sleep(5 * time.Hour) // let the stalled ones end
		})
	}
}

// If no cache answers, retries become rarer, and there is no directory.
func TestBackoff(t *testing.T) {
	n := small(t, 20)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.fault = func(int, string, io.Writer) bool { return true }
		c := New(Config{Network: n.Network, Dialer: w})
		stop := run(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		if _, err := c.Wait(ctx); !fault.Is(err, fault.Timeout) {
			t.Errorf("%v", err)
		}
		stop()
		if _, err := c.Wait(t.Context()); !fault.Is(err, fault.Closed) {
			t.Errorf("after the end: %v", err)
		}
		got := w.count("/tor/status-vote/")
		if got < 6*6*3 || got > 3000 { // some 300; by chance over 1000 in one run of 30,000
			t.Errorf("%d requests in six hours", got)
		}
	})
}

func TestRequiredProtocols(t *testing.T) {
	n := small(t, 20)
	have, err := protover.Parse("Cons=2 Desc=2 Link=4 Microdesc=2 Relay=2")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := New(Config{Network: n.Network, Dialer: newWorld(n), Speaker: netdir.Speaker{Supports: have}})
		err := c.Run(ctx)
		if !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "FlowCtrl=1") {
			t.Errorf("%v", err)
		}
		if _, err := c.Wait(t.Context()); !fault.Is(err, fault.Refused) {
			t.Errorf("%v", err)
		}
	})
}

// TestRecommendedProtocols: of what a network only recommends there is one warning, however
// many consensuses say so.
func TestRecommendedProtocols(t *testing.T) {
	n := small(t, 20)
	n.Change = func(p *netdoc.Preamble) { p.RecommendedClient, _ = protover.Parse("Relay=63") }
	if err := n.Publish(n.ValidAfter); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := New(Config{Network: n.Network, Dialer: newWorld(n), Speaker: netdir.ThisProgram(false), Log: slog.New(slog.NewTextHandler(&log, nil))})
		c.cfg.Speaker.Released = time.Time{}
		for range 3 {
			if _, err := c.updateConsensus(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.checkProtocols(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Count(log.String(), "recommends protocols"); got != 1 || !strings.Contains(log.String(), "Relay=63") {
			t.Errorf("%d warnings: %s", got, log.String())
		}
	})
}

// A consensus that is not valid now is refused with the reason.
func TestWrongTime(t *testing.T) {
	n := small(t, 20)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(72 * time.Hour)
		c := New(Config{Network: n.Network, Dialer: newWorld(n)})
		if _, err := c.updateConsensus(t.Context()); err == nil || !strings.Contains(err.Error(), "clock says") {
			t.Errorf("%v", err)
		}
	})
}

// TestSplit: the numbers of requests are C tor's, for as many digests.
func TestSplit(t *testing.T) {
	for n, want := range map[int][2]int{0: {}, 1: {1, 1}, 16: {1, 1}, 32: {1, 1}, 33: {2, 2}, 96: {3, 3}, 97: {3, 3}, 128: {3, 3}, 270: {3, 3}, 271: {3, 4}, 736: {3, 9},
		1500: {3, 17}, 1501: {4, 17}, 4000: {8, 45}, 9000: {18, 100}} {
		for i, most := range []int{maxBatch, shortBatch} {
			got := split(make([][32]byte, n), most)
			total := 0
			for _, b := range got {
				total += len(b.digests)
				if len(b.digests) > most || most == shortBatch && len(b.request().encode()) > 4300 {
					t.Errorf("%d: a batch of %d", n, len(b.digests))
				}
			}
			if len(got) != want[i] || total != n {
				t.Errorf("%d, at most %d: %d batches of %d", n, most, len(got), total)
			}
		}
	}
}
