package interop

import (
	"os"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
)

// TestTor runs the suite with C tor's own client: this shows that the checks and
// the networks are right.
func TestTor(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it judges this suite by C tor's own client, in three minutes; CHIVE_LONG=1 runs it")
	}
	suite(t, torClient{})
}

// suite has the checks that every client must pass. Each kind of network is
// separate, so they run at the same time.
func suite(t *testing.T, s subject) {
	t.Run("kist", func(t *testing.T) {
		t.Parallel()
		nw := network(t, "kist")
		defer quiet(t, nw)()
		p := start(t, s, nw, startOptions{dir: t.TempDir()})
		traffics(t, s, p, bulk)
		t.Run("resolve", func(t *testing.T) { testResolve(t, s, p) })
		t.Run("ipv6", func(t *testing.T) { testIPv6(t, p) })
		t.Run("refusals", func(t *testing.T) { testRefusals(t, s, p) })
		t.Run("exit policy", func(t *testing.T) { testExitPolicy(t, s, nw) })
		t.Run("isolation", func(t *testing.T) { testIsolation(t, s, nw, p) })
	})
	t.Run("vanilla", func(t *testing.T) {
		t.Parallel()
		nw := network(t, "vanilla")
		defer quiet(t, nw)()
		t.Run("transfers", func(t *testing.T) { traffics(t, s, start(t, s, nw, startOptions{dir: t.TempDir()}), windows) })
		t.Run("pinned", func(t *testing.T) { testPinned(t, s, nw) })
		t.Run("restart", func(t *testing.T) { testRestart(t, s, nw) })
		t.Run("authority down", func(t *testing.T) { testAuthorityDown(t, s, nw) })
		t.Run("guard stopped", func(t *testing.T) { testGuardStopped(t, s, nw) })
	})
	t.Run("no-cc", func(t *testing.T) {
		t.Parallel()
		nw := network(t, "no-cc")
		defer quiet(t, nw)()
		t.Run("transfers", func(t *testing.T) { traffics(t, s, start(t, s, nw, startOptions{dir: t.TempDir()}), windows) })
		t.Run("stale cache", func(t *testing.T) { testStaleCache(t, s, nw) })
	})
	t.Run("no-cgo", func(t *testing.T) {
		t.Parallel()
		nw := network(t, "no-cgo")
		defer quiet(t, nw)()
		t.Run("transfers", func(t *testing.T) { traffics(t, s, start(t, s, nw, startOptions{dir: t.TempDir()}), windows) })
		t.Run("foreign cache", func(t *testing.T) { testForeignCache(t, s, network(t, "no-cc"), nw) })
	})
}

// traffics runs the checks for every kind of network; size is the number of bytes
// of one stream.
func traffics(t *testing.T, s subject, p *proxy, size int64) {
	t.Run("download", func(t *testing.T) { testDownload(t, p, size) })
	t.Run("upload", func(t *testing.T) { testUpload(t, p, size) })
	t.Run("streams", func(t *testing.T) { testStreams(t, p) })
	t.Run("half-close", func(t *testing.T) { testHalfClose(t, s, p) })
}

// quiet marks the relays' logs, and returns a check that none of them has
// warned since: a relay that complains about a client is right.
func quiet(t *testing.T, nw *ctor.Network) func() {
	t.Helper()
	marks := map[*ctor.Node]int64{}
	for _, n := range nw.Routers() {
		size, err := n.LogSize()
		if err != nil {
			t.Fatal(err)
		}
		marks[n] = size
	}
	return func() {
		for n, mark := range marks {
			warnings, err := n.Warnings(mark)
			if err != nil {
				t.Error(err)
			}
			for _, w := range warnings {
				t.Errorf("%s: %s", n.Name, w)
			}
		}
	}
}
