// Package pace limits how often a peer does something, by limits that may change
// at any time because the consensus sets them. It uses golang.org/x/time/rate;
// callers whose limits never change use that package directly.
package pace

import (
	"time"

	"golang.org/x/time/rate"
)

// Limit is the number of events a second, and the number at once.
type Limit struct{ Rate, Burst float64 }

// Pace counts the events of one peer. The zero value allows a whole burst.
type Pace struct{ l *rate.Limiter }

// Allow reports whether an event may happen now under a limit, and counts it if so.
func (p *Pace) Allow(now time.Time, limit Limit) bool {
	r, burst := rate.Limit(limit.Rate), int(limit.Burst)
	switch {
	case p.l == nil:
		p.l = rate.NewLimiter(r, burst)
	case p.l.Limit() != r || p.l.Burst() != burst:
		p.l.SetLimitAt(now, r)
		p.l.SetBurstAt(now, burst)
	}
	return p.l.AllowN(now, 1)
}
