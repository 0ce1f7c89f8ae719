package hsservice

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestPointLife: the consensus may say how long an introduction point lives, and how many
// introductions it serves.
func TestPointLife(t *testing.T) {
	for name, c := range map[string]struct {
		params           netdoc.Params
		minLife, maxLife time.Duration
		minSent, maxSent int
	}{
		"nothing": {nil, 18 * time.Hour, 24 * time.Hour, minIntros, maxIntros},
		"all": {netdoc.Params{{Name: "hs_intro_max_introduce2", Value: 9}, {Name: "hs_intro_max_lifetime", Value: 3600},
			{Name: "hs_intro_min_introduce2", Value: 7}, {Name: "hs_intro_min_lifetime", Value: 60}}, time.Minute, time.Hour, 7, 9},
		"least beyond most": {netdoc.Params{{Name: "hs_intro_max_introduce2", Value: -1}, {Name: "hs_intro_min_lifetime", Value: 90000}},
			25 * time.Hour, 25 * time.Hour, minIntros, minIntros},
		"the most there is": {netdoc.Params{{Name: "hs_intro_max_lifetime", Value: 1<<31 - 1}, {Name: "hs_intro_min_lifetime", Value: 1<<31 - 1}},
			(1<<31 - 1) * time.Second, (1<<31 - 1) * time.Second, minIntros, maxIntros},
		"more than can be remembered": {netdoc.Params{{Name: "hs_intro_max_introduce2", Value: 1<<31 - 1}, {Name: "hs_intro_min_introduce2", Value: 1<<31 - 1}},
			18 * time.Hour, 24 * time.Hour, maxReplays, maxReplays},
	} {
		s, now := quiet(t), time.Now()
		s.mu.Lock()
		s.param = c.params.Get
		s.tendPointsLocked(now)
		if len(s.points) != DefaultPoints {
			t.Fatalf("%s: %d points", name, len(s.points))
		}
		for _, p := range s.points {
			if life := p.expires.Sub(now); life < c.minLife || life > c.maxLife {
				t.Errorf("%s: it lives %v", name, life)
			}
			if p.introsLeft < c.minSent || p.introsLeft > c.maxSent {
				t.Errorf("%s: it serves %d introductions", name, p.introsLeft)
			}
		}
		s.mu.Unlock()
	}
}
