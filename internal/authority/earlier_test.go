package authority

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestAuthorityKeepsConsensuses: an authority that was started again makes diffs from consensuses that it published before.
func TestAuthorityKeepsConsensuses(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	relayKeys, onion := keyPool(t, 1024, 1), keyPool(t, 1024, 1)[0]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var published []*netdoc.Consensus
		all, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) {
			c.Dir, c.WaitForRelays = dir, 1
			c.Published = func(c *netdoc.Consensus) { published = append(published, c) }
		})
		stop := run(t, all)
		d := newTestRelay(t, 0, relayKeys[0], onion).sign(t)
		if status, words := all[0].upload(all[0].cfg.DirPort.Addr(), d.Text); status != 200 {
			t.Fatal(words)
		}
		time.Sleep(25 * time.Second)
		stop()
		if len(published) < 4 {
			t.Fatalf("%d consensuses", len(published))
		}
		again, _ := inMemory(t, 1, identities, signings, func(_ int, c *Config) { c.Dir = dir })
		for _, c := range published {
			sum, err := netdoc.SHA3Signed(c.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			e := again[0].docs.Earlier(c.Flavor, sum)
			if e == nil {
				t.Errorf("%v of %v: forgotten", c.Flavor, c.ValidAfter)
				continue
			}
			if _, err := e.Text(); err != nil {
				t.Error(err)
			}
		}
	})
}
