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

// restingLocked returns the links that rest for the longest time. A link that has just
// opened, or just lost its last circuit, may be about to be used.
func (a *Account) restingLocked(goal int64) []*Account {
	now := int64(a.m.second.Load())
	var rest []*Account
	for addr := a.children; addr != nil; addr = addr.next {
		for c := addr.children; c != nil; c = c.next {
			if c.rests && c.evictable() && now-int64(c.active.Load()) >= maxIdle {
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
