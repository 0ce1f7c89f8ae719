package hsservice

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// An introduction does not say which authorized client it comes from, nor does any message
// after it. It only shows that the client has read a descriptor with its introduction point. So when
// a client is removed, or authorization is turned on, an epoch ends. The service makes
// new introduction points, which only clients that are allowed now find in the new
// descriptor. When the points of older epochs have ended, so do all circuits of clients
// that came by them. Clients that are allowed come again, and find the new points.
//
// The old points stay until the new descriptors are out, so that nobody is kept out, but not
// longer than revokedLife. C tor makes only new descriptors, with the same points.

// errRevoked is why introductions of an epoch that is over are dropped.
var errRevoked = fault.New(fault.Refused, "the client knows an introduction point from a time when other clients were allowed")

// revokedOut reports whether a point that somebody knows who must not ends now.
func (p *point) revokedOut(now time.Time) bool {
	return !p.revoked.IsZero() && (!p.outSince.IsZero() || now.Sub(p.revoked) >= revokedLife)
}

// shutOutLocked closes the circuits of clients that came by points of older epochs, once
// these points have ended. It returns how long that takes at most.
func (s *Service) shutOutLocked(now time.Time) (wait time.Duration) {
	wait = longest
	if s.least == s.epoch {
		return wait
	}
	old := false
	for _, p := range s.points {
		if p.epoch < s.epoch {
			old, wait = true, min(wait, revokedLife-now.Sub(p.revoked))
		}
	}
	if old {
		return wait
	}
	s.least = s.epoch
	for c, r := range s.clients {
		if r.epoch < s.least {
			s.destroy(c)
		}
	}
	for _, u := range s.pending {
		if u.through.epoch < s.least {
			u.cancel(errRevoked)
		}
	}
	return wait
}
