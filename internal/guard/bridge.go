package guard

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// PickBridge is Pick for one bridge, to ask it for its own descriptor over a
// circuit of one hop. A bridge that is down is refused until its next retry is
// due, unless all bridges are down.
func (m *Manager) PickBridge(id ident.RSAID, now time.Time) (*Use, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.cur
	g := s.find(id)
	if s.name != setBridges || g == nil || !g.filtered {
		return nil, fault.New(fault.Config, "bridge %v: the configuration does not allow it", id.LogValue())
	}
	down := true
	for _, x := range s.sample {
		x.considerRetry(now)
		down = down && !x.usable()
	}
	if down { // more likely our own network is down
		for _, x := range s.sample {
			x.forgive()
		}
	}
	if !g.usable() {
		return nil, fault.New(fault.Network, "bridge %v: unreachable; it is tried again in %v", id.LogValue(), max(0, g.retryAt(now).Sub(now)).Round(time.Second))
	}
	g.lastTried = now.Round(0)
	u := &Use{
		m: m, set: s, g: g, guard: g.cur, req: Request{Purpose: Directory1Hop}, seen: g.verdicts,
		state: usableOnCompletion, since: now, decided: make(chan struct{}),
	}
	m.uses = append(m.uses, u)
	return u, nil
}
