package authority

import (
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// roster has the relays that the authority knows of, by what an upload is compared with: accepting a
// descriptor costs the same with twenty thousand relays as with ten.
type roster struct {
	byRSA     map[ident.RSAID]*relay
	byEd      map[ident.Ed25519ID]*relay // checkPairLocked lets no two relays have one
	onAddress map[netip.Addr]group
	bySource  map[netip.Prefix]group
	strangers census
}

// group has some of the relays.
type group map[*relay]struct{}

func newRoster() roster {
	return roster{byRSA: map[ident.RSAID]*relay{}, byEd: map[ident.Ed25519ID]*relay{}, onAddress: map[netip.Addr]group{}, bySource: map[netip.Prefix]group{}}
}

// has reports whether a relay is in the set by this descriptor, which no other has replaced.
func (s *roster) has(r *relay) bool { return s.byRSA[r.desc.RSA] == r }

// put adds a relay in place of the one with its RSA identity.
func (s *roster) put(r *relay) {
	if old := s.byRSA[r.desc.RSA]; old != nil {
		s.remove(old)
	}
	s.byRSA[r.desc.RSA], s.byEd[r.desc.Ed] = r, r
	join(s.onAddress, r.desc.Addr, r)
	join(s.bySource, r.source, r)
}

// remove takes out a relay that is in the set.
func (s *roster) remove(r *relay) {
	delete(s.byRSA, r.desc.RSA)
	delete(s.byEd, r.desc.Ed)
	part(s.onAddress, r.desc.Addr, r)
	part(s.bySource, r.source, r)
	s.strangers.remove(r)
}

func join[K comparable](groups map[K]group, key K, r *relay) {
	g := groups[key]
	if g == nil {
		g = group{}
		groups[key] = g
	}
	g[r] = struct{}{}
}

func part[K comparable](groups map[K]group, key K, r *relay) {
	g := groups[key]
	delete(g, r)
	if len(g) == 0 {
		delete(groups, key)
	}
}

// census counts the strangers. A relay becomes one, or is one no longer, when time passes, a test ends or a
// consensus comes: so the census is taken anew when it is old. Until then it lacks the few relays that are
// strangers only since, and has some that are none any more.
type census struct {
	taken   time.Time
	list    []*relay
	bytes   int
	network map[netip.Prefix]*int // how many there are of each network
}

// censusFor is how long a census is good.
const censusFor = 10 * time.Second

// counted is a relay's place in the census.
type counted struct {
	index, size int
	network     *int
}

func (c *census) add(r *relay) {
	n := c.network[r.network]
	if n == nil {
		n = new(int)
		c.network[r.network] = n
	}
	*n++
	r.counted = &counted{len(c.list), r.size(), n}
	c.list = append(c.list, r)
	c.bytes += r.counted.size
}

// remove takes a relay out that may not be in it.
func (c *census) remove(r *relay) {
	at := r.counted
	if at == nil {
		return
	}
	last := len(c.list) - 1
	c.list[at.index] = c.list[last]
	c.list[at.index].counted.index = at.index
	c.list[last] = nil
	r.counted = nil
	c.list = c.list[:last]
	c.bytes -= at.size
	if *at.network--; *at.network == 0 {
		delete(c.network, r.network)
	}
}

// strangersLocked returns the census, and takes it if it is too old. The caller holds mu.
func (a *Authority) strangersLocked(now time.Time) *census {
	c := &a.relays.strangers
	if age := now.Sub(c.taken); c.network != nil && age >= 0 && age < censusFor {
		return c
	}
	for _, r := range c.list {
		r.counted = nil
	}
	*c = census{taken: now, list: c.list[:0], network: map[netip.Prefix]*int{}}
	for _, r := range a.relays.byRSA {
		if !a.knownLocked(r, now) {
			c.add(r)
		}
	}
	clear(c.list[len(c.list):cap(c.list)])
	return c
}

// victim picks the stranger to remove, from the network with the most strangers; nil if there is none.
func (c *census) victim(except *relay) (worst *relay) {
	for _, r := range c.list {
		if r == except {
			continue
		}
		if worst == nil {
			worst = r
			continue
		}
		x, y := *r.counted.network, *worst.counted.network
		if x > y || x == y && r.worse(worst) {
			worst = r
		}
	}
	return worst
}
