package hsservice

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// Two points of one descriptor are never at one relay: of those, C tor's clients use the first alone. Two of different
// descriptors may be: who knew that they never are would know something of a service from two lists of relays.
//
// Some relays are avoided as long as there are others: those at which a point was lost for good a short time ago, as C tor
// does, and those that other hosts of the fleet have in the same descriptor.

const (
	// firstLook is how long a fleet's host waits at most for its first look at a descriptor, before it chooses points for it.
	firstLook = 20 * time.Second
	// yieldPause is the least time between two changes of points because other hosts have theirs at the same relays.
	yieldPause = time.Hour
)

// failure is a relay at which a point was lost.
type failure struct {
	relay ident.RSAID
	at    time.Time
}

// rivals reports whether two points, of which the other has a relay, may not be at the same one.
func (p *point) rivals(o *point, now time.Time) bool {
	return o != p && o.of == p.of && !o.target.RSA.IsZero() && !o.replaced && !o.old(now)
}

// noteFailed notes that a point at a relay was lost for good. There are not more in launchWindow than launches.
func (x *descriptor) noteFailed(relay ident.RSAID, now time.Time) {
	x.failed = append(x.failed, failure{relay, now})
}

// avoid returns the relays that are not to become points if there are others.
func (x *descriptor) avoid(now time.Time) (out []ident.RSAID) {
	x.failed = slices.DeleteFunc(x.failed, func(f failure) bool { return now.Sub(f.at) >= launchWindow })
	for _, f := range x.failed {
		out = append(out, f.relay)
	}
	return append(out, x.view.Relays(now)...)
}

// buildAround builds a circuit to a relay that fits spec, and that is none of those to avoid if there is such a one.
func (s *Service) buildAround(ctx context.Context, spec path.Spec, avoid []ident.RSAID) (*circuit.Circuit, error) {
	if len(avoid) > 0 {
		around := spec
		around.ExcludeExit = slices.Concat(spec.ExcludeExit, avoid)
		c, _, err := s.cfg.Network.Build(ctx, around)
		if !errors.Is(err, path.ErrNone) {
			return c, err
		}
	}
	c, _, err := s.cfg.Network.Build(ctx, spec)
	return c, err
}

// unseenLocked is how long a host of a fleet waits before it chooses points for a descriptor that it has not looked at.
func (s *Service) unseenLocked(x *descriptor, now time.Time) time.Duration {
	if s.fleet == nil || x.looked {
		return 0
	}
	return max(0, x.made.Add(firstLook).Sub(now))
}

// yieldLocked replaces the points of this host that are at relays of other hosts, which chose at the same time. Of two hosts
// the one with the greater name makes room, so that never both do. Where a network has no other relays the two stay.
func (s *Service) yieldLocked(x *descriptor, now time.Time) {
	if now.Before(x.yieldOff) {
		return
	}
	taken := x.view.RelaysOf(now, func(e hsfleet.HostID) bool { return bytes.Compare(e[:], s.fleet.Host[:]) < 0 })
	for _, p := range s.points {
		if p.of == x && p.circ != nil && !p.replaced && slices.Contains(taken, p.target.RSA) {
			p.renew, x.yieldOff = true, now.Add(yieldPause)
		}
	}
}

// noteChoiceLocked notes where a new point of a descriptor is: at a relay of another host only if there is no other one.
func (x *descriptor) noteChoiceLocked(relay ident.RSAID, now time.Time) {
	if slices.Contains(x.view.Relays(now), relay) {
		x.yieldOff = now.Add(yieldPause)
	}
}
