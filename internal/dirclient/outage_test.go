package dirclient

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While the authorities make no consensus, caches have nothing newer to send. A client
// asks less and less often: all clients of the network do so at the same time.
func TestNothingNewer(t *testing.T) {
	for _, c := range []struct {
		what  string
		again bool // caches send the present consensus, as if they did not know If-Modified-Since
	}{{"the same again", true}, {"not modified", false}} {
		n := small(t, 60)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			var again atomic.Bool
			again.Store(c.again)
			w.fault = func(_ int, path string, to io.Writer) bool {
				if !again.Load() || !strings.Contains(path, "consensus") {
					return false
				}
				io.WriteString(to, "HTTP/1.0 200 OK\r\n\r\n"+string(n.Consensus))
				return true
			}
			client := New(Config{Network: n.Network, Dialer: w})
			stop := run(t, client)
			wait(t, client)
			time.Sleep(time.Until(client.Directory().ValidUntil()))
			before := w.count("/tor/status-vote/")
			time.Sleep(6 * time.Hour)
			// An attempt is made every ten minutes at least, and half as much on average.
			if asked := w.count("/tor/status-vote/") - before; asked < 36 || asked > 6*60 {
				t.Errorf("%s: %d requests in six hours", c.what, asked)
			}
			again.Store(false)
			for range 9 {
				if err := w.publish(0.05, false); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(maxDelay + time.Minute)
			if d := client.Directory(); !d.Live(time.Now()) || !client.Ready(d, time.Now()) {
				t.Errorf("%s: the directory is valid until %v", c.what, d.ValidUntil())
			}
			stop()
		})
	}
}

// A client whose disk takes nothing has no file that a diff could be applied to. It asks for
// whole consensuses, and blames no cache.
func TestDiskTakesNothing(t *testing.T) {
	n := small(t, 60)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		client := New(Config{Network: n.Network, Dialer: w, Dir: filepath.Join(file, "cache")})
		stop := run(t, client)
		wait(t, client)
		for range 6 {
			time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
			if err := w.publish(0.05, true); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if d := client.Directory(); !d.Live(time.Now()) {
			t.Errorf("the directory is valid until %v", d.ValidUntil())
		}
		for cache, errs := range w.reports {
			if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
				t.Errorf("cache %d was blamed: %v", cache, errs[i])
			}
		}
	})
}
