package guard

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// PickBridge is Pick for one bridge, to ask it for its own descriptor over a
// circuit of one hop. Who asks says when a bridge that is down is tried again: C tor's clients ask on
// a timetable of their own, too.
func (m *Manager) PickBridge(id ident.RSAID, now time.Time) (*Use, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.cur
	g := s.find(id)
	if s.name != setBridges || g == nil || !g.filtered {
		return nil, fault.New(fault.Config, "bridge %v: the configuration does not allow it", id.LogValue())
	}
	g.lastTried = now.Round(0)
	u := &Use{
		m: m, set: s, g: g, guard: g.cur, req: Request{Purpose: Directory1Hop}, seen: g.verdicts,
		state: usableOnCompletion, since: now, decided: make(chan struct{}),
	}
	m.uses = append(m.uses, u)
	return u, nil
}

// RetryPrimary lets primary guards that are unreachable be tried at once.
func (m *Manager) RetryPrimary() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.cur.primary {
		g.forgive()
	}
}

// TakenBack reports whether a bridge without descriptor was unreachable, and may be tried again since the last such
// question. Only who asks it for its descriptor can find out whether it works.
func (m *Manager) TakenBack(id ident.RSAID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.cur.find(id)
	if g == nil || !g.forgiven {
		return false
	}
	g.forgiven = false
	return g.bare()
}

// Bridged reports whether a bridge is known to work, and has given its descriptor.
func (m *Manager) Bridged() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cur.name == setBridges && slices.ContainsFunc(m.cur.sample, func(g *sampled) bool { return g.usable() && g.reach == yes && g.cur.Complete })
}
