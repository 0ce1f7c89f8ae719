package hsservice

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// tendFleet looks at a descriptor if it is time to.
func (s *Service) tendFleet(d *netdir.Directory, x *descriptor, fresh bool, now time.Time) (busy bool) {
	v := &x.view
	old := fresh && now.Sub(v.Looked) > lookFresh
	if leaving := s.fleet.leaving; old || !now.Before(v.Next) || !leaving.IsZero() && v.Looked.Before(leaving) {
		s.look(d, x, now)
		return true
	}
	return false
}

// look fetches the descriptor that clients find, and notes what it says.
func (s *Service) look(d *netdir.Directory, x *descriptor, now time.Time) {
	x.busy = true
	x.view.Next = now.Add(lookMin + time.Duration(random(int64(lookMax-lookMin))))
	known := x.revision
	dirs := s.allowed(x.period.fetchDirectories(d, x.keys.Blinded.Public()))
	s.wg.Go(func() {
		defer panics.Recover(s.log, func(err error) { s.noteLook(x, nil, nil, err) })
		got, _, err := s.newest(dirs, x.keys.Blinded.Public(), known)
		if got == nil {
			s.noteLook(x, nil, nil, err)
			return
		}
		in, err := got.Open(x.keys.Subcredential, s.fleet.Client)
		if err == nil {
			s.found(x, in)
		}
		s.noteLook(x, got, in, err)
	})
}

// found says that clients can find the service, if the descriptors of both periods name a
// point of ours. One would do for clients of today; but the host that hands over to this one
// may leave then, and the other descriptor would name nobody who lives.
func (s *Service) found(x *descriptor, in *netdoc.HSInner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.points, func(p *point) bool {
		return p.of == x && p.circ != nil && slices.ContainsFunc(in.Points, func(o netdoc.HSIntroPoint) bool { return o.Auth == p.id() })
	}) {
		return
	}
	x.view.Named = true
	if !slices.ContainsFunc(s.descs, func(x *descriptor) bool { return !x.view.Named }) {
		s.pubOnce.Do(func() { close(s.published) })
	}
}

// noteLook notes what came of a look.
func (s *Service) noteLook(x *descriptor, got *netdoc.HSDescriptor, in *netdoc.HSInner, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.kick()
	x.busy, x.view.Looked, x.looked = false, now, true
	if !s.isPublished() {
		x.view.Next = now.Add(lookFresh)
	}
	if err != nil {
		s.problem = err
	}
	if in != nil {
		s.sawLocked(x, got, in, now)
	}
}

// noteRefusal notes the descriptor for which a directory refused ours.
func (s *Service) noteRefusal(x *descriptor, old *netdoc.HSDescriptor) {
	now := time.Now()
	in, err := old.Open(x.keys.Subcredential, s.fleet.Client)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.problem = err
		x.floor = max(x.floor, old.Revision)
		return
	}
	s.sawLocked(x, old, in, now)
}
