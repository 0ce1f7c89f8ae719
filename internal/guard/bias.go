package guard

import (
	"context"
	"log/slog"
)

// bias holds the counts of path-spec 7 for one guard. A guard that makes circuits
// fail unless they end at relays of the same attacker has low success rates. The
// counts are fractions because old counts are scaled down.
type bias struct {
	CircAttempts  float64 `json:"circ_attempts"`  // second hop built
	CircSuccesses float64 `json:"circ_successes"` // completed
	ClosedWell    float64 `json:"closed_well"`    // completed; used with success, or closed by us before any use
	Collapsed     float64 `json:"collapsed"`      // completed, and closed by another party before any use
	Unusable      float64 `json:"unusable"`       // used, without success
	Timeouts      float64 `json:"timeouts"`       // took too long to build
	UseAttempts   float64 `json:"use_attempts"`   // circuits that a stream was attached to
	UseSuccesses  float64 `json:"use_successes"`  // of those, circuits whose last hop answered
	Disabled      bool    `json:"disabled"`       // no longer used, because of its rates

	said, saidUse level // the levels that were logged already
}

// level is how alarming a rate is.
type level uint8

const (
	fine level = iota
	notice
	warn
	extreme
)

// useBias is what one circuit has added to the counts so far.
type useBias struct {
	attempted, built, timedOut bool
	tried, answered            bool
}

// Extended reports that the circuit has two hops: from now on its failure counts.
// Circuits of one hop never count.
func (u *Use) Extended() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	if u.state == dead || u.bias.attempted {
		return
	}
	u.bias.attempted = true
	u.g.bias.CircAttempts++
	u.m.judgeCircuitsLocked(u.g)
	u.m.touchLocked()
}

// TimedOut reports that the circuit passed its close timeout while it was
// being built.
func (u *Use) TimedOut() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	if u.state == dead || u.bias.timedOut || !u.bias.attempted {
		return
	}
	u.bias.timedOut = true
	u.g.bias.Timeouts++
	u.m.touchLocked()
}

// built counts a completed circuit. The manager is locked.
func (u *Use) built() {
	if u.bias.attempted && !u.bias.built {
		u.bias.built = true
		u.g.bias.CircSuccesses++
	}
}

// StreamTried reports that a stream was attached to the circuit.
func (u *Use) StreamTried() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	if u.state != complete || !u.bias.built || u.bias.tried {
		return
	}
	u.bias.tried = true
	u.g.bias.UseAttempts++
	u.m.judgeUsesLocked(u.g)
	u.m.touchLocked()
}

// StreamAnswered reports that the last hop answered as expected: CONNECTED,
// RESOLVED, or an END with a reason that only the last hop can know.
func (u *Use) StreamAnswered() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.bias.answered = u.bias.tried
}

// StreamFailed reports that a later stream timed out or failed without an answer:
// the circuit then counts only as an attempt.
func (u *Use) StreamFailed() {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.bias.answered = false
}

// biasClosed counts the end of a circuit. If the circuit answered, it does not
// matter which side ended it, because relays restart and links break. The manager
// is locked.
func (u *Use) biasClosed(byUs bool) {
	b := &u.g.bias
	if !u.bias.built {
		return
	}
	switch {
	case u.bias.tried && u.bias.answered:
		b.ClosedWell++
		b.UseSuccesses++
	case u.bias.tried:
		b.Unusable++
	case byUs:
		b.ClosedWell++
	default:
		b.Collapsed++
	}
	u.m.touchLocked()
}

// openUsesLocked counts the circuits through g that are not closed: built ones, ones
// being built, and ones with a stream.
func (m *Manager) openUsesLocked(g *sampled) (built, building, used float64) {
	for _, u := range m.uses {
		switch {
		case u.g != g || !u.bias.attempted:
			continue
		case u.bias.built:
			built++
		default:
			building++
		}
		if u.bias.tried {
			used++
		}
	}
	return built, building, used
}

// judgeCircuitsLocked checks the success rate of building circuits, and scales the counts.
func (m *Manager) judgeCircuitsLocked(g *sampled) {
	b, p := &g.bias, &m.p.Bias
	built, building, _ := m.openUsesLocked(g)
	if b.CircAttempts > p.MinCircs {
		rate := (b.ClosedWell + built) / b.CircAttempts
		l := fine
		switch {
		case rate < p.Extreme:
			l = extreme
		case rate < p.Warn:
			l = warn
		case rate < p.Notice:
			l = notice
		}
		m.accuseLocked(g, l, &b.said, "circuits", rate)
	}
	if b.CircAttempts > p.ScaleCircs {
		scale(p.ScaleBy, built+building, &b.CircAttempts)
		scale(p.ScaleBy, built, &b.CircSuccesses)
		scale(p.ScaleBy, 0, &b.ClosedWell, &b.Collapsed, &b.Unusable, &b.Timeouts)
	}
}

// judgeUsesLocked checks the success rate of using circuits, and scales the counts.
func (m *Manager) judgeUsesLocked(g *sampled) {
	b, p := &g.bias, &m.p.Bias
	_, _, used := m.openUsesLocked(g)
	if b.UseAttempts > p.MinUse {
		rate := (b.UseSuccesses + used) / b.UseAttempts
		l := fine
		switch {
		case rate < p.ExtremeUse:
			l = extreme
		case rate < p.NoticeUse:
			l = notice
		}
		m.accuseLocked(g, l, &b.saidUse, "uses", rate)
	}
	if b.UseAttempts > p.ScaleUse {
		scale(p.ScaleBy, used, &b.UseAttempts)
		scale(p.ScaleBy, 0, &b.UseSuccesses)
	}
}

// scale multiplies counts, except the part that belongs to open circuits.
func scale(by, open float64, counts ...*float64) {
	for _, c := range counts {
		*c = max(0, *c-open)*by + open
	}
}

// accuseLocked logs, once per level, that a guard's rate is low. At the extreme level
// it disables the guard if the parameters ask for that.
func (m *Manager) accuseLocked(g *sampled, l level, said *level, what string, rate float64) {
	if l == extreme && m.p.Bias.Drop && !g.bias.Disabled {
		g.bias.Disabled = true
		m.log().Warn("guard fails so many "+what+" that it is no longer used: it may be manipulating routes", "guard", g.id, "rate", rate)
		for _, s := range m.sets {
			s.refilter(&m.cfg.Filter)
			s.choosePrimary(m.p.Primary)
		}
	}
	if l <= *said {
		return
	}
	*said = l
	if g.bias.Disabled {
		return
	}
	at := map[level]slog.Level{notice: slog.LevelInfo, warn: slog.LevelWarn, extreme: slog.LevelWarn}[l]
	text := map[level]string{
		notice:  "guard fails more " + what + " than usual: the network may be overloaded",
		warn:    "guard fails very many " + what + ": the network may be overloaded or under attack",
		extreme: "guard fails an extreme number of " + what + ": it may be manipulating routes",
	}[l]
	m.log().Log(context.Background(), at, text, "guard", g.id, "rate", rate)
}

// Doubtful reports whether streams were tried on the circuit, and none was answered: its end would count against the guard.
func (u *Use) Doubtful() bool {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	return u.state == complete && u.bias.built && u.bias.tried && !u.bias.answered
}
