// Package pace says whether a peer does something too often, by limits that may
// change while it runs: those of the consensus. golang.org/x/time/rate counts.
// Callers whose limits never change use that package itself.
package pace

import (
	"time"

	"golang.org/x/time/rate"
)

// Limit is so many events a second, and so many at once.
type Limit struct{ Rate, Burst float64 }

// Pace is one peer's. The zero value has its whole burst left.
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
