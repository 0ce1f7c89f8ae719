package authority

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// TestRequiredOfAuthorities: an authority ends if a consensus requires protocols of relays that
// it lacks, both one that it computed and one that it took over; the others go on.
func TestRequiredOfAuthorities(t *testing.T) {
	identities, signings := keyPool(t, 2048, 3), keyPool(t, 2048, 3)
	for name, adopted := range map[string]bool{"computed": false, "adopted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := inMemory(t, 3, identities, signings, nil)
				old, err := protover.Parse("Cons=2 Link=4")
				if err != nil {
					t.Fatal(err)
				}
				last := all[2]
				last.speaker = netdir.Speaker{Relay: true, Supports: old}
				stop := run(t, all[:2])
				defer stop()
				if adopted {
					time.Sleep(3 * time.Second)
					last.mu.Lock()
					for _, a := range all[:2] {
						last.addCertLocked(a.cfg.Keys.Cert)
					}
					last.mu.Unlock()
					if err := last.adopt(all[0].Consensus(netdoc.FlavorNS)); err != nil || len(last.refused) != 1 {
						t.Errorf("%v, %d refusals", err, len(last.refused))
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := last.Run(ctx); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "of relays") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestRecommendedToAuthorities: advice is one warning.
func TestRecommendedToAuthorities(t *testing.T) {
	var log strings.Builder
	a := &Authority{log: slog.New(slog.NewTextHandler(&log, nil)), refused: make(chan error, 1), speaker: netdir.ThisProgram(true)}
	c := &netdoc.Consensus{Preamble: netdoc.Preamble{Lifetime: netdoc.Lifetime{ValidAfter: a.speaker.Released}}}
	c.RecommendedRelay, _ = protover.Parse("Relay=63")
	for range 3 {
		a.obeyLocked(c)
	}
	if n := strings.Count(log.String(), "lacks=Relay=63"); n != 1 && strings.Count(log.String(), `lacks="Relay=63"`) != 1 || len(a.refused) != 0 {
		t.Errorf("%s", log.String())
	}
}
