package guard

import (
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// Status is a snapshot of a Manager, for metrics and for status displays.
type Status struct {
	Set       string // "default", "restricted" or "bridges"
	Sampled   int
	Filtered  int // of the sampled guards, those listed and allowed
	Confirmed int
	Waiting   int         // circuits that wait for a better guard
	Online    time.Time   // the last success; zero before the first
	Guards    []GuardInfo // primary ones first, then the rest in sample order
}

// GuardInfo is one member of the sample.
type GuardInfo struct {
	ID                  ident.RelayID
	Nickname            string
	Primary             int    // position among the primary guards, from 1; 0 for others
	Confirmed           int    // position in the confirmed list, from 1; 0 for others
	Reachable           string // "maybe", "yes" or "no"
	Listed, Allowed     bool   // in the consensus; by the configuration
	AddedAt             time.Time
	ConfirmedAt         time.Time // zero when not confirmed
	Circuits, Attempts  float64   // completed and attempted, recently
	Uses, UseAttempts   float64   // answered and tried, recently
	DisabledByPathBias  bool
	RetryAt, LastTried  time.Time // zero if reachable; zero if never tried
	OpenCircuits, Tries int       // complete now; exploratory ones being built
}

// Status returns a snapshot of the current set.
func (m *Manager) Status(now time.Time) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.cur
	st := Status{Set: s.name, Sampled: len(s.sample), Confirmed: len(s.confirmed), Online: m.online}
	open := map[*sampled]int{}
	for _, u := range m.uses {
		switch u.state {
		case waiting:
			st.Waiting++
		case complete:
			open[u.g]++
		}
	}
	place := func(list []*sampled) map[*sampled]int {
		at := make(map[*sampled]int, len(list))
		for i, g := range list {
			at[g] = i + 1
		}
		return at
	}
	primary, confirmed := place(s.primary), place(s.confirmed)
	add := func(g *sampled) {
		info := GuardInfo{
			ID: g.id, Nickname: g.nickname, Primary: primary[g], Confirmed: confirmed[g],
			Reachable: g.reach.String(), Listed: g.listed, Allowed: g.filtered,
			AddedAt: g.addedAt, ConfirmedAt: g.confirmedAt,
			Circuits: g.bias.CircSuccesses, Attempts: g.bias.CircAttempts,
			Uses: g.bias.UseSuccesses, UseAttempts: g.bias.UseAttempts,
			DisabledByPathBias: g.bias.Disabled, LastTried: g.lastTried,
			OpenCircuits: open[g], Tries: g.pending,
		}
		if g.reach == no {
			info.RetryAt = g.retryAt(now)
		}
		st.Guards = append(st.Guards, info)
	}
	for _, g := range s.primary {
		add(g)
	}
	for _, g := range s.sample {
		if g.filtered {
			st.Filtered++
		}
		if !g.primary {
			add(g)
		}
	}
	return st
}
