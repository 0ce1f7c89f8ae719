package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// chooseLocked returns the guard for a circuit (guard-spec 4.6), and whether the
// circuit may be used as soon as it is complete.
func (m *Manager) chooseLocked(s *set, req *Request, now time.Time) (*sampled, state, error) {
	for _, g := range s.sample {
		g.considerRetry(now)
	}
	if err := m.missingLocked(s, req, now); err != nil {
		return nil, dead, err
	}
	outdated := s.outdated(req)
	fits := func(g *sampled) bool {
		return g.usable() && req.allows(g) && !outdated(g) && (req.Purpose == Directory1Hop || g.cur.Complete)
	}
	if g := m.pickPrimaryLocked(s, req, fits); g != nil {
		return g, usableOnCompletion, nil
	}
	if m.expandLocked(s, now) {
		s.choosePrimary(m.p.Primary)
	}
	for _, list := range [][]*sampled{s.confirmed, s.sample} {
		var first *sampled
		for _, g := range list {
			if g.primary || !fits(g) {
				continue
			}
			// A guard that is known to work needs no exploratory circuit: more
			// circuits through it at the same time do not expose this client to
			// another guard, and need not wait.
			if g.pending == 0 || g.reach == yes {
				return g, usableIfNoBetter, nil
			}
			if first == nil {
				first = g
			}
		}
		// All of them are being tried already: try the best one again.
		if first != nil {
			return first, usableIfNoBetter, nil
		}
	}
	return nil, dead, nil
}

// outdated returns which guards are passed over as outdated.
func (s *set) outdated(req *Request) func(*sampled) bool {
	if req.Outdated == nil || len(s.members((*sampled).usable)) < enoughUsable {
		return func(*sampled) bool { return false }
	}
	return func(g *sampled) bool { return req.Outdated(g.cur) }
}

// pickPrimaryLocked picks among the first primary guards that fit. A guard that the path
// forbids still counts among the first, unless no other guard is left. Otherwise a
// peer could choose restrictions that make a client use all its guards.
func (m *Manager) pickPrimaryLocked(s *set, req *Request, fits func(*sampled) bool) *sampled {
	want := m.p.UsePrimary
	if req.Purpose == Directory1Hop {
		want = m.p.UsePrimaryDir
	}
	var usable []*sampled
	considered := 0
	for _, g := range s.primary {
		if considered >= want && len(usable) > 0 {
			break
		}
		if fits(g) {
			usable = append(usable, g)
			considered++
		} else if !req.allows(g) {
			considered++
		}
	}
	if len(usable) == 0 {
		return nil
	}
	return usable[m.cfg.Rand.IntN(len(usable))]
}

// missingLocked refuses traffic while the client has no descriptor of one of the guards that
// it would use. If the client used the next guards in the list, a cache that withholds
// descriptors could choose the guard (guard-spec 4.12).
func (m *Manager) missingLocked(s *set, req *Request, now time.Time) error {
	if req.Purpose == Directory1Hop {
		return nil
	}
	if g := m.lackingLocked(s, now); g != nil {
		return fault.New(fault.Directory, "guard %v: its descriptor is missing", g.id.LogValue())
	}
	return nil
}

// lackingLocked returns one of the guards that traffic uses, of which there is no descriptor, or nil. With Config.NextToo the
// first of those that are not known to be down count, and one more, as in C tor
// (guard_selection_get_err_str_if_dir_info_missing). A bridge sends its own descriptor, so no other host can withhold it;
// another bridge may be used meanwhile.
func (m *Manager) lackingLocked(s *set, now time.Time) *sampled {
	list, left := s.primary[:min(m.p.UsePrimary, len(s.primary))], m.p.UsePrimary
	if m.cfg.NextToo {
		list, left = s.primary, m.p.UsePrimary+1
	}
	for _, g := range list {
		if g.considerRetry(now); g.reach == no {
			continue
		}
		if !g.cur.Complete && !g.cur.Bridge {
			return g
		}
		if left--; left == 0 {
			break
		}
	}
	return nil
}

// Lacks reports whether circuits for traffic wait for the descriptor of a guard.
func (m *Manager) Lacks(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lackingLocked(m.cur, now) != nil
}

// noneLocked returns the error that says why no guard can be used.
func (m *Manager) noneLocked(s *set, req *Request, now time.Time) error {
	var unlisted, walled, excluded, disabled, down, bare, forbidden, old int
	var retry time.Time
	outdated := s.outdated(req)
	for _, g := range s.sample {
		switch {
		case !g.listed:
			unlisted++
		case g.bias.Disabled:
			disabled++
		case !g.filtered && !m.cfg.Filter.reaches(g.cur):
			walled++
		case !g.filtered:
			excluded++
		case g.reach == no:
			down++
			if t := g.retryAt(now); retry.IsZero() || t.Before(retry) {
				retry = t
			}
		case req.Purpose != Directory1Hop && !g.cur.Complete:
			bare++
		case !req.allows(g):
			forbidden++
		case outdated(g):
			old++
		}
	}
	var why []string
	add := func(n int, what string) {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(unlisted, "not listed in the consensus")
	add(walled, "at addresses that the configuration says cannot be reached")
	add(excluded, "excluded by the configuration")
	add(disabled, "disabled for failing circuits")
	if down > 0 {
		add(down, fmt.Sprintf("unreachable (next retry in %v)", max(0, retry.Sub(now)).Round(time.Second)))
	}
	add(bare, "without microdescriptor")
	add(forbidden, "forbidden by the rest of the path")
	add(old, "without the microdescriptors of the newest consensus")
	if len(why) == 0 && s.name == setBridges {
		return fault.New(fault.Network, "no guard: no bridge has been reached yet")
	}
	if len(why) == 0 && s.name == setRestricted {
		return fault.New(fault.Config, "no guard: the configuration excludes every relay of the consensus that could be one")
	}
	if len(why) == 0 {
		return fault.New(fault.Directory, "no guard: the consensus lists no relay with the flags Guard, Stable, Fast and V2Dir")
	}
	kind := fault.Directory
	if down > 0 {
		kind = fault.Network
	} else if excluded+walled > 0 {
		kind = fault.Config
	}
	return fault.New(kind, "no guard: of %d sampled, %s", len(s.sample), strings.Join(why, ", "))
}

// higher reports whether a is preferred to b (guard-spec 4.3).
func (s *set) higher(a, b *sampled) bool {
	switch {
	case a == b:
		return false
	case a.isConfirmed() || b.isConfirmed():
		if a.isConfirmed() && b.isConfirmed() {
			return slices.Index(s.confirmed, a) < slices.Index(s.confirmed, b)
		}
		return a.isConfirmed()
	case (a.pending > 0) != (b.pending > 0):
		return a.pending > 0
	case a.pending > 0:
		return a.lastTried.Before(b.lastTried)
	}
	return false
}
