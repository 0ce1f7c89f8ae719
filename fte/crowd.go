package fte

import (
	"container/list"

	"github.com/chivenet/chive/internal/account"
)

// crowd holds members with a common bound, such as the connections of a listener,
// grouped by address. When there are too many, the largest group loses one: so a
// stranger with one address cannot push out the others.
type crowd struct {
	groups map[*account.Account]*group // by the account of the address, which all its members share
	sizes  map[int]map[*group]struct{} // the groups of each size
	most   int                         // the largest size
	n      int
}

// group has the members from one address.
type group struct {
	key *account.Account
	of  list.List // of *place, the oldest first
}

// place is one member's place in a crowd.
type place struct {
	x any
	g *group
	e *list.Element // nil: it has left
}

func newCrowd() crowd {
	return crowd{groups: map[*account.Account]*group{}, sizes: map[int]map[*group]struct{}{}}
}

// size returns how many members came from an address.
func (c *crowd) size(key *account.Account) int {
	if g := c.groups[key]; g != nil {
		return g.of.Len()
	}
	return 0
}

// enter adds x, which came from an address.
func (c *crowd) enter(key *account.Account, x any) *place {
	g := c.groups[key]
	if g == nil {
		g = &group{key: key}
		c.groups[key] = g
	}
	p := &place{x: x, g: g}
	p.e = g.of.PushBack(p)
	c.n++
	c.moved(g, g.of.Len()-1)
	return p
}

// leave removes a member. Further calls do nothing.
func (c *crowd) leave(p *place) {
	if p.e == nil {
		return
	}
	g := p.g
	g.of.Remove(p.e)
	p.e = nil
	c.n--
	c.moved(g, g.of.Len()+1)
	if g.of.Len() == 0 {
		delete(c.groups, g.key)
	}
}

// moved records the new size of a group; from is its old size.
func (c *crowd) moved(g *group, from int) {
	if delete(c.sizes[from], g); len(c.sizes[from]) == 0 {
		delete(c.sizes, from)
	}
	size := g.of.Len()
	if size > 0 {
		if c.sizes[size] == nil {
			c.sizes[size] = map[*group]struct{}{}
		}
		c.sizes[size][g] = struct{}{}
	}
	// Sizes change by one, so most can be wrong by one only.
	if c.most = max(c.most, size); c.sizes[c.most] == nil {
		c.most = max(c.most-1, 0)
	}
}

// oldest removes and returns the member of the largest group that came first, and
// newest the one that came last. The crowd is not empty.
func (c *crowd) oldest() any { return c.out((*list.List).Front) }
func (c *crowd) newest() any { return c.out((*list.List).Back) }

func (c *crowd) out(end func(*list.List) *list.Element) any {
	for g := range c.sizes[c.most] {
		p := end(&g.of).Value.(*place)
		c.leave(p)
		return p.x
	}
	panic("fte: an empty crowd has no member to remove")
}
