package guard

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// sampled is a member of a sample.
type sampled struct {
	// These fields are saved.
	id            ident.RelayID
	nickname      string
	addedAt       time.Time // randomised to the past
	addedBy       string    // version of this program
	listed        bool      // in the newest consensus
	unlistedSince time.Time // randomised; zero when listed
	confirmedAt   time.Time // randomised; zero when not confirmed
	bias          bias

	// These fields belong to this run of the program.
	cur          Candidate // newest description; its identity is id
	filtered     bool      // listed, allowed by the configuration, not disabled
	primary      bool
	reach        reach
	lastTried    time.Time // by the wall clock, which a suspended machine does not stop
	failingSince time.Time // likewise
	silentSince  time.Time // when the first of those was asked who were not answered, one after the other
	silentUntil  time.Time // when the last of them stopped to wait
	verdicts     uint64    // how often reach was found out
	pending      int       // exploratory circuits that are being built through it
	gone         bool      // no longer in the sample
	forgiven     bool      // since TakenBack was called
}

func (g *sampled) isConfirmed() bool { return !g.confirmedAt.IsZero() }
func (g *sampled) usable() bool      { return g.filtered && g.reach != no }

// bare reports whether the guard is a bridge that has not given its descriptor.
func (g *sampled) bare() bool { return g.cur.Bridge && !g.cur.Complete }

// set is one instance of the guard state (guard-spec 2).
type set struct {
	name      string
	sample    []*sampled // in sample order
	confirmed []*sampled // in sample order
	primary   []*sampled // in sample order, which is that of preference
}

// Names of the instances.
const (
	setDefault    = "default"
	setRestricted = "restricted"
	setBridges    = "bridges"
)

func (s *set) find(id ident.RSAID) *sampled {
	for _, g := range s.sample {
		if g.id.RSA.Equal(id) {
			return g
		}
	}
	return nil
}

// inPast is RAND(now, interval) of guard-spec: a random time, at most interval
// before now.
func inPast(rnd *rand.Rand, now time.Time, interval time.Duration) time.Time {
	return now.Add(-time.Duration(rnd.Int64N(int64(max(interval, 1))))).Truncate(time.Second).UTC()
}

// source holds candidates: from a consensus, or from the configured bridges.
type source struct {
	all    func(yield func(Candidate) bool)
	lookup func(ident.RSAID) (Candidate, bool)
	// fixed means that every candidate becomes a member, without a random choice.
	fixed bool
}

// relist updates each member from the newest source. It reports whether any saved
// field changed.
func (s *set) relist(src *source, p *Params, rnd *rand.Rand, now time.Time) (changed bool) {
	for _, g := range s.sample {
		c, listed := src.lookup(g.id.RSA)
		// A relay that shows another Ed25519 identity is another relay.
		if listed && !g.id.Ed.IsZero() && !c.ID.Ed.IsZero() && !g.id.Ed.Equal(c.ID.Ed) {
			listed = false
		}
		if listed {
			if g.id.Ed.IsZero() && !c.ID.Ed.IsZero() || g.nickname != c.Nickname {
				changed = true
			}
			if g.id.Ed.IsZero() {
				g.id.Ed = c.ID.Ed
			}
			c.ID = g.id
			g.nickname, g.cur = c.Nickname, c
		} else {
			g.cur = Candidate{ID: g.id, Nickname: g.nickname}
		}
		switch {
		case listed && (!g.listed || !g.unlistedSince.IsZero()):
			g.listed, g.unlistedSince, changed = true, time.Time{}, true
		case !listed && (g.listed || g.unlistedSince.IsZero()):
			g.listed, g.unlistedSince, changed = false, inPast(rnd, now, p.RemoveUnlisted/5), true
		}
	}
	return changed
}

// describe finds out where the members are that it does not know yet, from a consensus that is too old to tell more.
func (s *set) describe(src *source) {
	for _, g := range s.sample {
		if c, ok := src.lookup(g.id.RSA); ok && len(g.cur.Addrs) == 0 && (g.id.Ed.IsZero() || c.ID.Ed.IsZero() || g.id.Ed.Equal(c.ID.Ed)) {
			g.cur = c
		}
	}
}

// expire removes the members whose lifetime is over (guard-spec 4.1). One that was used is
// kept for a time that begins with its first use, and ends whenever it was drawn: the longer
// a client stays with a guard, the more a hostile one can learn. As the date of the first use
// is random, that is 48 to 60 days.
func (s *set) expire(p *Params, now time.Time) (changed bool) {
	keep := s.sample[:0:0]
	for _, g := range s.sample {
		old := func(t time.Time, d time.Duration) bool { return t.Before(now.Add(-d)) }
		over := old(g.addedAt, p.Lifetime)
		if g.isConfirmed() {
			over = old(g.confirmedAt, p.ConfirmedLifetime)
		}
		if over || !g.listed && old(g.unlistedSince, p.RemoveUnlisted) {
			g.gone, changed = true, true
			continue
		}
		keep = append(keep, g)
	}
	s.sample = keep
	isGone := func(g *sampled) bool { return g.gone }
	s.confirmed = slices.DeleteFunc(s.confirmed, isGone)
	s.primary = slices.DeleteFunc(s.primary, isGone)
	return changed
}

// refilter applies the configuration.
func (s *set) refilter(f *Filter) {
	for _, g := range s.sample {
		g.filtered = g.listed && !g.bias.Disabled && f.Allows(g.cur)
	}
}

// maxSize returns the largest size of the sample if n guards are listed.
func (p *Params) maxSize(n int) int {
	return max(min(int(float64(n)*p.MaxSampleThreshold), p.MaxSampleSize), p.MinFilteredSample)
}

// expand adds random guards until enough can be used or the sample is full.
func (s *set) expand(src *source, p *Params, f *Filter, rnd *rand.Rand, version string, now time.Time) (changed bool) {
	usable := 0
	for _, g := range s.sample {
		if g.usable() {
			usable++
		}
	}
	if usable >= p.MinFilteredSample && !src.fixed {
		return false
	}
	var free []Candidate
	n := 0
	for c := range src.all {
		// A restricted sample takes only guards that the configuration allows.
		// Otherwise it might contain none of a short list of entry nodes.
		if s.name == setRestricted && !f.Allows(c) {
			continue
		}
		n++
		if s.find(c.ID.RSA) == nil {
			free = append(free, c)
		}
	}
	limit := p.maxSize(n)
	for len(free) > 0 && (src.fixed || usable < p.MinFilteredSample && len(s.sample) < limit) {
		i := 0
		if !src.fixed {
			i = draw(free, rnd)
		}
		c := free[i]
		free = slices.Delete(free, i, i+1)
		g := &sampled{
			id: c.ID, nickname: c.Nickname, cur: c, listed: true,
			addedAt: inPast(rnd, now, p.Lifetime/10), addedBy: version,
			filtered: f.Allows(c),
		}
		s.sample = append(s.sample, g)
		changed = true
		if g.usable() {
			usable++
		}
	}
	return changed
}

// draw returns a random index, weighted. If all weights are zero, each index is
// equally likely.
func draw(cs []Candidate, rnd *rand.Rand) int {
	var total uint64
	for i := range cs {
		total += cs[i].Weight
	}
	if total == 0 {
		return rnd.IntN(len(cs))
	}
	at := rnd.Uint64N(total)
	for i := range cs {
		if at < cs[i].Weight {
			return i
		}
		at -= cs[i].Weight
	}
	panic("guard: the weights do not add up") // at < total
}

// members returns the members of the sample that f selects, in sample order.
func (s *set) members(f func(*sampled) bool) []*sampled {
	return slices.DeleteFunc(slices.Clone(s.sample), func(g *sampled) bool { return !f(g) })
}

// choosePrimary recomputes the primary guards (guard-spec 4.4): confirmed ones
// first, then those that were primary before, then the rest in sample order.
//
// Those chosen are preferred in sample order, whichever worked first (proposal 310).
// Otherwise the first circuit that is ever complete would decide: the fastest of the
// guards would carry all traffic of more clients than its share, and a network that
// blocks the others for a moment could choose the guard for months.
func (s *set) choosePrimary(n int) {
	old := s.primary
	for _, g := range s.sample {
		g.primary = false
	}
	for _, list := range [][]*sampled{s.confirmed, old, s.sample} {
		for _, g := range list {
			if n > 0 && g.filtered && !g.primary && !g.gone {
				g.primary = true
				n--
			}
		}
	}
	s.primary = s.members(func(g *sampled) bool { return g.primary })
}

// confirm adds a guard to the confirmed list, once.
func (s *set) confirm(g *sampled, p *Params, rnd *rand.Rand, now time.Time) (changed bool) {
	if g.isConfirmed() {
		return false
	}
	g.confirmedAt = inPast(rnd, now, p.Lifetime/10)
	s.confirmed = s.members((*sampled).isConfirmed)
	s.choosePrimary(p.Primary)
	return true
}

// primaryDown reports whether every primary guard that the path allows is known to
// be unreachable. It ignores guards that the path forbids, such as its exit or, for
// a second leg, the first leg's guard: that they work does not help this path.
func (s *set) primaryDown(req *Request, now time.Time) bool {
	for _, g := range s.primary {
		g.considerRetry(now)
		if g.reach != no && req.allows(g) {
			return false
		}
	}
	return true
}
