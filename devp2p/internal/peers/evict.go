package peers

import (
	"cmp"
	"slices"
	"time"
)

// How many connections are safe from eviction.
const (
	safeScores = 4 // those with the best scores
	safeShare  = 4 // a quarter of the rest are onion peers, longest first
	safeAge    = 2 // half of what is left are those that have lasted longest
)

// evict chooses the connection that makes room for a new one: an incoming one that is
// neither static nor trusted. Peers that would be hard to replace for somebody who
// wants to surround this node are safe: those with the best scores, onion peers, and
// those that have lasted longest. Of the others, the one goes that came last from
// the circuit or network with the most connections. Nil: all are safe. mu is held.
//
// The idea is Bitcoin Core's.
func (m *Manager) evict(newcomer *conn) *conn {
	now := time.Now()
	var list []*conn
	for id, c := range m.live {
		if c == newcomer || !c.inbound || c.leaving || m.reserved(id) {
			continue
		}
		list = append(list, c)
	}
	keep := func(n int, order func(a, b *conn) int, may func(*conn) bool) {
		slices.SortStableFunc(list, order)
		kept := 0
		list = slices.DeleteFunc(list, func(c *conn) bool {
			if kept < n && may(c) {
				kept++
				return true
			}
			return false
		})
	}
	oldest := func(a, b *conn) int { return a.since.Compare(b.since) }
	keep(safeScores, func(a, b *conn) int { return cmp.Compare(b.score.now(now, scoreHalf), a.score.now(now, scoreHalf)) },
		func(c *conn) bool { return c.score.now(now, scoreHalf) > 0 })
	keep(len(list)/safeShare, oldest, func(c *conn) bool { return c.route.Onion })
	keep(len(list)/safeAge, oldest, func(*conn) bool { return true })
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *conn) int {
		return cmp.Or(cmp.Compare(m.crowd(a), m.crowd(b)), a.since.Compare(b.since))
	})
}

// crowd returns how many connections share a connection's group; those of no known group
// are alone. mu is held.
func (m *Manager) crowd(c *conn) int {
	if c.group == "" {
		return 1
	}
	return m.groups[c.group]
}
