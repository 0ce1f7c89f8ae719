package pool

import (
	"slices"

	"github.com/chivenet/chive/internal/fault"
)

// ErrLate is what a Builder returns that builds a circuit only to learn how long that takes, because it takes longer than most.
var ErrLate = fault.New(fault.Timeout, "the circuit takes longer than most: it is built only to be measured")

// isLate forgets a launch whose circuit nobody will get. It is no failure: C tor counts none, and tries again as often as
// circuits are late. What has waited for it gets another one at the next second, not at once, because C tor looks then for what
// waits; but when another circuit is ready before, it looks too.
func (p *Pool) isLate(l *launch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.late {
		return
	}
	l.late = true
	p.total.Late++
	p.launches = slices.DeleteFunc(p.launches, func(o *launch) bool { return o == l })
	p.forsakeLocked(l)
}
