package dirclient

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAppearance: a cache sees the requests of a start as it sees C tor's: the consensus, then the
// certificates from the same cache, then microdescriptors in few requests, in the order of
// their digests.
func TestAppearance(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		w.delay = func(int, string) time.Duration { return time.Second }
		c := New(Config{Network: n.Network, Dialer: w})
		stop := run(t, c)
		wait(t, c)
		stop()
		all := w.seen()
		if len(all) != 4 {
			t.Fatalf("%d requests", len(all))
		}
		consensus, certs := all[0], all[1]
		if !strings.HasPrefix(consensus.path, "/tor/status-vote/current/consensus-microdesc/") || !strings.HasSuffix(consensus.path, ".z") {
			t.Errorf("the first request: %s", consensus.path)
		}
		if !strings.HasPrefix(certs.path, "/tor/keys/fp/") || strings.HasSuffix(certs.path, ".z") || certs.cache != consensus.cache || certs.at.Sub(consensus.at) != time.Second {
			t.Errorf("the second request: %s, after %v, from %d and not %d", certs.path, certs.at.Sub(consensus.at), certs.cache, consensus.cache)
		}
		for _, r := range all[2:] {
			path, z := strings.CutSuffix(r.path, ".z")
			if !strings.HasPrefix(path, "/tor/micro/d/") || !z || r.at.Sub(certs.at) != time.Second {
				t.Errorf("a further request: %s, after %v", r.path, r.at.Sub(certs.at))
			}
			digests := strings.Split(strings.TrimPrefix(path, "/tor/micro/d/"), "-")
			if len(digests) > 32 || len(digests) < 28 {
				t.Errorf("%d digests in a request", len(digests))
			}
		}
		if b := split([][32]byte{{3}, {1}, {2}}, maxBatch); !slices.Equal(b[0].digests, [][32]byte{{1}, {2}, {3}}) {
			t.Errorf("digests in another order: %v", b)
		}
	})
}
