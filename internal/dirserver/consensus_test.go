package dirserver

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// A consensus that no client takes is not sent: in a long outage, each client that starts
// would download it again and again.
func TestOldConsensus(t *testing.T) {
	m := filled(t)
	c := m.Consensus(netdoc.FlavorMicrodesc)
	for _, x := range []struct {
		now  time.Time
		want int
	}{
		{c.ValidAfter.Add(-25 * time.Hour), 404},
		{c.ValidAfter.Add(-23 * time.Hour), 200},
		{c.ValidUntil.Add(23 * time.Hour), 200},
		{c.ValidUntil.Add(25 * time.Hour), 404},
	} {
		s := New(Config{Docs: m, Now: func() time.Time { return x.now }})
		if status, _ := get(t, s, "/tor/status-vote/current/consensus-microdesc"); status != x.want {
			t.Errorf("at %v: status %d, not %d", x.now, status, x.want)
		}
	}
}
