package authority

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// promptly is the schedule of a laboratory whose second round is far away.
func promptly(c *Config) {
	c.Schedule = Schedule{InitialInterval: 2 * time.Second, InitialVoteDelay: time.Second, InitialDistDelay: time.Second, Prompt: true,
		Interval: 10 * time.Minute, VoteDelay: 2 * time.Second, DistDelay: 2 * time.Second}
}

// promptCase is a first round of three authorities.
type promptCase struct {
	name  string
	ready [3]time.Duration // when each has the relays; negative: it does not run
	// by is the time that the last of those that run needs to serve a consensus after it is ready, and votes is how many
	// that consensus has.
	by    time.Duration
	votes int
}

// A prompt round ends when the last authority is ready, whether it is ready a moment later than the others or not, and also if it
// is in the next interval then. Without one authority, it takes as long as its delays. Whoever is later than that meets the others
// in a later round, or takes over what they have made: none waits for the round after that, which is ten minutes later.
func TestPromptRound(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	relayKeys, onion := keyPool(t, 1024, 2), keyPool(t, 1024, 1)[0]
	const ms = time.Millisecond
	for _, c := range []promptCase{
		{"together", [3]time.Duration{300 * ms, 300 * ms, 300 * ms}, 10 * ms, 3},
		{"one is late", [3]time.Duration{300 * ms, 310 * ms, 900 * ms}, 10 * ms, 3},
		{"one does not run", [3]time.Duration{300 * ms, 310 * ms, -1}, 2100 * ms, 2},
		{"the first in the interval before", [3]time.Duration{1900 * ms, 2100 * ms, 2100 * ms}, 10 * ms, 3},
		{"the last in the next interval", [3]time.Duration{1900 * ms, 1900 * ms, 2100 * ms}, 10 * ms, 3},
		{"the last late in the next interval", [3]time.Duration{1900 * ms, 2100 * ms, 2850 * ms}, 10 * ms, 3},
		{"too late for the first", [3]time.Duration{300 * ms, 3300 * ms, 3300 * ms}, 3100 * ms, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var relays []*testRelay
				for i, k := range relayKeys {
					relays = append(relays, newTestRelay(t, i, k, onion))
				}
				var mu sync.Mutex
				var serves []int // authorities, as often as they said that they serve another consensus
				note := func(i int) {
					mu.Lock()
					defer mu.Unlock()
					serves = append(serves, i)
				}
				all, _ := inMemory(t, 3, identities, signings, func(i int, cfg *Config) {
					promptly(cfg)
					cfg.WaitForRelays = len(relays)
					cfg.Published = func(c *netdoc.Consensus) {
						if c.Flavor == netdoc.FlavorMicrodesc {
							note(i)
						}
					}
					cfg.TookOver = func() { note(i) }
				})
				begin := time.Now()
				running, last := all, time.Duration(0)
				for i, at := range c.ready {
					if last = max(last, at); at < 0 {
						running = all[:i]
						continue
					}
					time.AfterFunc(at, func() {
						for _, r := range relays {
							if status, words := all[i].upload(netip.Addr{}, r.sign(t).Text); status != 200 {
								t.Error(words)
							}
						}
					})
				}
				defer run(t, running)()
				time.Sleep(last + c.by)
				synctest.Wait()
				for i, a := range running {
					text := a.Consensus(netdoc.FlavorMicrodesc)
					if text == nil {
						t.Fatalf("authority %d has no consensus after %v", i, time.Since(begin))
					}
					doc, err := netdoc.ParseConsensus(text, nil, nil)
					if err != nil || len(doc.Sources) != c.votes || len(doc.Signatures) < 2 || len(doc.Routers) != len(relays) {
						t.Errorf("authority %d: %v: %d votes, %d signatures, %d relays", i, err, len(doc.Sources), len(doc.Signatures), len(doc.Routers))
					} else if now := time.Now(); doc.ValidAfter.After(now) || now.After(doc.FreshUntil) {
						t.Errorf("authority %d: at %v, the consensus is fresh from %v to %v", i, now, doc.ValidAfter, doc.FreshUntil)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				seen := map[int]bool{}
				for _, i := range serves {
					seen[i] = true
				}
				if len(seen) != len(running) {
					t.Errorf("only of %s it is known that they serve a consensus", fmt.Sprint(serves))
				}
			})
		})
	}
}
