package hsservice

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
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

// endTime is how long a circuit stays whose streams were ended. This host's links may keep DESTROY cells back for minutes when several
// circuits end (channel.heldEnds), and drops what a closed circuit has not sent: the client would hear of nothing.
const endTime = time.Second

// shutOutLocked ends the streams of clients that came by points of older epochs, once these points have ended, and then
// their circuits. It returns how long until there is something to do.
func (s *Service) shutOutLocked(now time.Time) (wait time.Duration) {
	wait = longest
	if s.least == s.epoch && !s.shutting {
		return wait
	}
	old := false
	for _, p := range s.points {
		if p.epoch < s.epoch {
			old, wait = true, min(wait, revokedLife-now.Sub(p.revoked))
		}
	}
	if !old {
		s.least = s.epoch
	}
	for _, u := range s.pending {
		if u.through.epoch < s.least {
			u.cancel(errRevoked)
		}
	}
	s.shutting = false
	for c, r := range s.clients {
		switch {
		case r.epoch >= s.least:
			continue
		case r.shut.IsZero() && r.open.Load() > 0:
			r.shut = now
			s.wg.Go(panics.Contain(s.log, nil, func() { s.endStreams(c) }))
		case r.shut.IsZero() || now.Sub(r.shut) >= endTime:
			s.destroy(c)
			continue
		}
		s.shutting, wait = true, min(wait, endTime-now.Sub(r.shut))
	}
	return wait
}

// endStreams tells a client that all its streams have ended.
func endStreams(c *circuit.Circuit) {
	if h := c.Last(); h != nil {
		h.EndStreams(cell.EndDestroy)
	}
}
