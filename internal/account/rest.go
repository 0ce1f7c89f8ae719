package account

import (
	"cmp"
	"slices"
)

// Rest says whether the holder, a link, is of no use to anybody from now on, and only kept
// because it may be of use again. Those that rest for the longest time are evicted before all
// others.
func (a *Account) Rest(rests bool) {
	if a == nil {
		return
	}
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.rests = rests
	a.active.Store(a.m.second.Load())
}

// Last says whether the holder, a link, is evicted only when nobody else is left. A relay's link
// carries the circuits of many clients, and to close it harms them all, while strangers can open as
// many links as they like. What is below the link is evicted like anything else.
func (a *Account) Last(last bool) {
	if a == nil {
		return
	}
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.last = last
}

// spareLocked begins or ends to spare the links of Last. What they hold themselves then counts for
// nothing: an address would seem the heaviest for what cannot be evicted there.
func (m *Memory) spareLocked(sparing bool) {
	m.sparing = sparing
	clear(m.spared)
	if !sparing {
		return
	}
	for addr := m.root.children; addr != nil; addr = addr.next {
		for c := addr.children; c != nil; c = c.next {
			if c.last {
				own := max(0, c.own.Load())
				m.spared[c] += own
				m.spared[addr] += own
			}
		}
	}
}

// longestRestingLocked returns the links that rest for the longest time. A link that has just
// opened, or just lost its last circuit, may be about to be used.
func (a *Account) longestRestingLocked(goal int64) []*Account {
	now := int64(a.m.second.Load())
	var rest []*Account
	for addr := a.children; addr != nil; addr = addr.next {
		for c := addr.children; c != nil; c = c.next {
			if c.rests && c.evictable() && !(c.last && c.m.sparing) && now-int64(c.active.Load()) >= maxIdle {
				rest = append(rest, c)
			}
		}
	}
	slices.SortFunc(rest, func(x, y *Account) int { return cmp.Compare(x.active.Load(), y.active.Load()) })
	var bytes int64
	for i, c := range rest {
		if bytes += c.Used(); bytes >= goal {
			return rest[:i+1]
		}
	}
	return rest
}
