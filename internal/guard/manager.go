package guard

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// reasonablyLive is how far outside its validity time a consensus may be while
// the Manager still believes which relays it lists.
const reasonablyLive = 24 * time.Hour

// Manager keeps the guards of one client.
type Manager struct {
	store   Store
	changed chan struct{}
	saving  sync.Mutex // held while the state is written; taken before mu

	mu     sync.Mutex // guards all below
	cfg    Config
	p      Params
	dir    Directory // nil before the first consensus
	sets   map[string]*set
	cur    *set
	uses   []*Use
	online time.Time // the time of the last success; zero before the first
	dirty  bool      // there is something to save
	warned bool      // an extreme restriction was logged
}

// New makes a manager with the state in store. If the state is damaged, New logs
// that, sets it aside, and begins with an empty state. If the store cannot be
// read, New returns an error.
func New(cfg Config, store Store, now time.Time) (*Manager, error) {
	m := &Manager{
		store: store, changed: make(chan struct{}, 1),
		cfg: cfg, p: DefaultParams(), sets: map[string]*set{},
	}
	if err := m.load(now); err != nil {
		return nil, err
	}
	if cfg.UseBridges || len(cfg.Bridges) > 0 {
		m.cur = m.instanceLocked(setBridges)
		m.refreshLocked(now)
	} else {
		m.cur = m.instanceLocked(setDefault)
	}
	return m, nil
}

// instanceLocked returns the named set, and makes an empty one if there is none.
func (m *Manager) instanceLocked(name string) *set {
	s := m.sets[name]
	if s == nil {
		s = &set{name: name}
		m.sets[name] = s
	}
	return s
}

// Update takes a new consensus, or the same one with more microdescriptors
// (guard-spec 4.10).
func (m *Manager) Update(dir Directory, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir = dir
	m.p = m.cfg.apply(ParamsFrom(dir.Param))
	m.refreshLocked(now)
}

// SetFilter takes a new configuration. The members of the sample do not depend on
// it.
func (m *Manager) SetFilter(f Filter, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Filter = f
	m.refreshLocked(now)
}

// SetBridges takes a new list of bridges, or new descriptors of the same ones;
// an empty list goes back to the consensus's guards, unless UseBridges is set.
func (m *Manager) SetBridges(bridges []Candidate, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Bridges = slices.Clone(bridges)
	m.refreshLocked(now)
}

// refreshLocked recomputes all that depends on the consensus and the configuration.
func (m *Manager) refreshLocked(now time.Time) {
	m.cur = m.instanceLocked(m.selectSetLocked())
	s, src := m.cur, m.sourceLocked()
	if src == nil {
		return
	}
	if src.fixed || m.liveLocked(now) {
		if s.relist(src, &m.p, m.cfg.Rand, now) {
			m.touchLocked()
		}
		if s.expire(&m.p, now) {
			m.touchLocked()
		}
	} else {
		s.describe(src)
	}
	s.refilter(&m.cfg.Filter)
	m.expandLocked(s, now)
	s.choosePrimary(m.p.Primary)
	m.upgradeLocked(now)
}

// liveLocked reports whether the consensus is still reasonably live at now.
func (m *Manager) liveLocked(now time.Time) bool {
	return now.After(m.dir.ValidAfter().Add(-reasonablyLive)) && now.Before(m.dir.ValidUntil().Add(reasonablyLive))
}

// sourceLocked returns the source of the current set's candidates, or nil if there is
// no consensus yet.
func (m *Manager) sourceLocked() *source {
	if m.cur.name == setBridges {
		bridges := m.cfg.Bridges
		return &source{
			fixed: true,
			all:   slices.Values(bridges),
			lookup: func(id ident.RSAID) (Candidate, bool) {
				i := slices.IndexFunc(bridges, func(c Candidate) bool { return c.ID.RSA.Equal(id) })
				if i < 0 {
					return Candidate{}, false
				}
				return bridges[i], true
			},
		}
	}
	if m.dir == nil {
		return nil
	}
	return &source{all: m.dir.Guards(), lookup: m.dir.Guard}
}

func (m *Manager) expandLocked(s *set, now time.Time) bool {
	src := m.sourceLocked()
	if src == nil || s != m.cur || !src.fixed && !m.liveLocked(now) || !s.expand(src, &m.p, &m.cfg.Filter, m.cfg.Rand, m.cfg.Version, now) {
		return false
	}
	m.touchLocked()
	return true
}

// selectSetLocked returns the name of the instance for the configuration (guard-spec
// 2). A configuration that leaves few guards has an instance of its own, so that
// the default sample has no trace of it. The threshold to enter it is lower than
// the one to leave it, so that a client near a threshold does not switch again
// and again.
func (m *Manager) selectSetLocked() string {
	f := &m.cfg.Filter
	switch {
	case m.cfg.UseBridges || len(m.cfg.Bridges) > 0:
		return setBridges
	case m.dir == nil || f.Exclude == nil && f.Entry == nil && f.Reachable == nil:
		return setDefault
	}
	var all, passing float64
	for c := range m.dir.Guards() {
		all++
		if f.Allows(c) {
			passing++
		}
	}
	if all == 0 {
		return setDefault
	}
	if passing < all*m.p.Extreme && !m.warned {
		m.warned = true
		m.log().Warn("the configuration excludes nearly every possible guard, which makes this client stand out",
			"allowed", int(passing), "of", int(all))
	}
	threshold := all * m.p.Meaningful
	switch {
	case m.cur != nil && m.cur.name == setRestricted:
		threshold *= 1.05
	case m.cur != nil && m.cur.name == setDefault && len(m.cur.sample) > 0:
		threshold *= 0.95
	}
	if passing < threshold {
		return setRestricted
	}
	return setDefault
}

// Pick chooses the guard for a new circuit. The caller must end the Use with
// Failed, Cancelled or Closed.
func (m *Manager) Pick(req Request, now time.Time) (*Use, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.cur
	if m.sourceLocked() == nil {
		return nil, fault.New(fault.Directory, "no guard: there is no consensus yet")
	}
	g, st, err := m.chooseLocked(s, &req, now)
	if err == nil && g == nil {
		// Every guard is down, so more likely our own network is. Try all of them
		// again.
		for _, g := range s.sample {
			g.forgive()
		}
		why := m.noneLocked(s, &req, now)
		if g, st, err = m.chooseLocked(s, &req, now); err == nil && g == nil {
			err = why
		}
	}
	if err != nil {
		return nil, err
	}
	g.lastTried = now.Round(0)
	if st == usableIfNoBetter {
		g.pending++
	}
	u := &Use{m: m, set: s, g: g, guard: g.cur, req: req, seen: g.verdicts, state: st, since: now, decided: make(chan struct{})}
	m.uses = append(m.uses, u)
	return u, nil
}

// Contains reports whether a relay is in the current sample.
func (m *Manager) Contains(id ident.RSAID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cur.find(id) != nil
}

func (m *Manager) log() *slog.Logger {
	if m.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return m.cfg.Log
}

// touchLocked marks the state as changed, so that it will be saved.
func (m *Manager) touchLocked() {
	m.dirty = true
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Drop forgets all guards of the current set, and chooses others. Circuits over the old ones go on.
func (m *Manager) Drop(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, m.cur.name)
	m.refreshLocked(now)
	m.touchLocked()
}
