package guard

import (
	"slices"
	"time"
)

// Decision says what to do with a complete circuit.
type Decision uint8

// Decisions.
const (
	Undecided Decision = iota // the circuit is not complete yet
	UseNow
	Wait    // a better guard may start to work soon: wait for Decided
	Discard // it will not be used: close it
)

func (d Decision) String() string {
	return [...]string{"undecided", "use now", "wait", "discard"}[d]
}

// Failure says how a circuit failed before it was complete.
type Failure uint8

// Failures.
const (
	// Unreachable: this client could not connect to the guard. Of a circuit of several hops nothing else makes a guard
	// unreachable. Strangers can make circuits fail, and streams and links end; if that
	// counted, they could drive a client from guard to guard.
	Unreachable Failure = iota
	// Silent: nothing came of the connection to the guard before this client stopped to wait for it. The guard is
	// unreachable once that has gone on for Config.Patience: who delays a guard for a moment, or a machine
	// that is busy, must not move the client to another one.
	Silent
	// Unanswered: the guard itself, or its link, ended a directory request over one hop before the answer was whole. As
	// in C tor it is unreachable at once, whatever came of others meanwhile.
	Unanswered
	// Beyond: the first hop was built, a later one was not. It is unknown which
	// relay is to blame; path bias finds out over time.
	Beyond
)

// state is a circuit's state of guard-spec 4.6.
type state uint8

const (
	usableOnCompletion state = iota
	usableIfNoBetter
	waiting
	complete
	dead
)

// Use is one circuit's use of a guard, from the choice of the guard to the end
// of the circuit. Its methods may be called in any order from any goroutine; a
// call that comes too late has no effect.
type Use struct {
	m     *Manager
	set   *set
	g     *sampled
	guard Candidate
	req   Request
	seen  uint64 // the guard's verdicts when it was chosen

	decided chan struct{} // closed when the decision is final

	// Guarded by m.mu.
	state state
	since time.Time // when the circuit entered the state
	bias  useBias
}

// Guard returns the guard as it was when it was chosen.
func (u *Use) Guard() Candidate { return u.guard }

// Decided is closed when Decision has become UseNow or Discard.
func (u *Use) Decided() <-chan struct{} { return u.decided }

// Decision returns what to do with the circuit.
func (u *Use) Decision() Decision {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	return u.state.decision()
}

func (s state) decision() Decision {
	switch s {
	case waiting:
		return Wait
	case complete:
		return UseNow
	case dead:
		return Discard
	}
	return Undecided
}

// Succeeded reports that the circuit is complete (guard-spec 4.8), and returns
// what to do with it.
func (u *Use) Succeeded(now time.Time) Decision {
	m, g := u.m, u.g
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.state != usableOnCompletion && u.state != usableIfNoBetter {
		return u.state.decision()
	}
	u.built()
	before := m.online
	m.online = now
	if g.gone {
		u.to(dead, now)
		return Discard
	}
	if g.reach != yes {
		m.log().Debug("guard is up", "guard", g.id, "primary", g.primary)
	}
	exploratory := u.state == usableIfNoBetter
	g.reach, g.failingSince, g.silentSince = yes, time.Time{}, time.Time{}
	g.verdicts++
	if u.set.confirm(g, &m.p, m.cfg.Rand, now) {
		m.touchLocked()
	}
	// Confirmation may have made the guard primary.
	if !exploratory || g.primary {
		u.to(complete, now)
	} else {
		u.to(waiting, now)
		// After a long time without success, perhaps the network was down and
		// not the primary guards: try them again first.
		if before.IsZero() || now.Sub(before) > m.p.InternetDown {
			for _, p := range u.set.primary {
				p.forgive()
			}
		}
	}
	m.upgradeLocked(now)
	return u.state.decision()
}

// Failed reports that the circuit could not be completed (guard-spec 4.7). Of the circuits that
// waited for one connection, only the first that says so counts: the others must not overrule
// what was found out about the guard since.
func (u *Use) Failed(now time.Time, how Failure) {
	m, g := u.m, u.g
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.state == dead {
		return
	}
	asked := u.since
	u.to(dead, now)
	if how == Unanswered || u.seen == g.verdicts && (how == Unreachable || how == Silent && g.silent(asked, now) >= m.cfg.Patience) {
		g.verdicts++
		if g.reach != no {
			m.log().Info("guard is down", "guard", g.id, "primary", g.primary, "confirmed", g.isConfirmed())
		}
		g.reach, g.silentSince = no, time.Time{}
		if g.failingSince.IsZero() {
			g.failingSince = now.Round(0)
		}
	}
	m.upgradeLocked(now)
}

// Cancelled reports that the circuit was given up for a reason that says
// nothing about the guard.
func (u *Use) Cancelled(now time.Time) {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.to(dead, now)
	u.m.upgradeLocked(now)
}

// Closed reports the end of a circuit that was complete. byUs is true if this
// client closed the circuit, and false if another party did.
func (u *Use) Closed(now time.Time, byUs bool) {
	m := u.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.state == dead {
		return
	}
	u.biasClosed(byUs)
	u.to(dead, now)
	m.upgradeLocked(now)
}

// to changes the state; the manager forgets a dead use.
func (u *Use) to(s state, now time.Time) {
	if u.state == dead {
		return
	}
	if u.state == usableIfNoBetter {
		u.g.pending--
	}
	final := u.state != complete && (s == complete || s == dead)
	u.state, u.since = s, now
	if final {
		close(u.decided)
	}
	if s == dead {
		u.m.uses = slices.DeleteFunc(u.m.uses, func(o *Use) bool { return o == u })
	}
}

// upgradeLocked lets circuits be used that waited long enough for better guards
// (guard-spec 4.9).
func (m *Manager) upgradeLocked(now time.Time) {
	for _, u := range slices.Clone(m.uses) {
		if u.state == waiting && (u.g.primary || u.set.primaryDown(&u.req, now)) && !m.blockedLocked(u, now) {
			u.to(complete, now)
		}
	}
}

// blockedLocked reports whether a circuit with a better guard exists that could serve
// the same path. A circuit whose guard was found down since does not count.
func (m *Manager) blockedLocked(u *Use, now time.Time) bool {
	for _, o := range m.uses {
		if o.set != u.set || o.g.reach == no || !u.set.higher(o.g, u.g) || !u.req.allows(o.g) {
			continue
		}
		switch o.state {
		case complete, waiting:
			return true
		case usableIfNoBetter:
			if now.Sub(o.since) <= m.p.ConnectTimeout {
				return true
			}
		}
	}
	return false
}

// Tick does the work that is due at now: it discards circuits that waited too
// long, and lets circuits stop waiting for others. It returns the time of the
// next call; the zero time means that no call is needed until another method
// was called.
func (m *Manager) Tick(now time.Time) (next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range slices.Clone(m.uses) {
		if u.state == waiting && now.Sub(u.since) > m.p.IdleTimeout {
			u.to(dead, now)
		}
	}
	m.upgradeLocked(now)
	anyWaiting := false
	at := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, u := range m.uses {
		if u.state == waiting {
			anyWaiting = true
			at(u.since.Add(m.p.IdleTimeout + 1))
		}
	}
	for _, u := range m.uses {
		if t := u.since.Add(m.p.ConnectTimeout + 1); anyWaiting && u.state == usableIfNoBetter && t.After(now) {
			at(t)
		}
	}
	return next
}
