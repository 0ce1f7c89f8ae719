package hsservice

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// A new consensus can make introduction points unfit before their time.

// tendIncrement ends the points of another SENDME increment than the consensus's: clients that
// ask there expect the one that their descriptor tells, and a descriptor tells one for all points.
func (s *Service) tendIncrement() {
	s.inc = 0
	if params, on := s.cfg.Circuits.Flow(); on {
		s.inc = params.SendmeInc // 254 at most: flow.ParamsFrom
	}
	s.points = slices.DeleteFunc(s.points, func(p *point) bool {
		if p.inc == s.inc {
			return false
		}
		if p.cancel != nil {
			p.cancel() // of what is under way
		}
		if p.circ != nil {
			s.closeSoon(p.circ)
		}
		s.since = time.Time{} // the next descriptor waits for several, as the first
		return true
	})
}

// renewUnlisted has points replaced whose relays have left the consensus: the authorities may
// have thrown them out. The microdescriptor of a relay that is listed may be missing for a while.
func (s *Service) renewUnlisted(d *netdir.Directory) {
	for _, p := range s.points {
		if p.target.RSA.IsZero() {
			continue
		}
		if _, listed := d.Lookup(p.target.RSA); !listed {
			p.renew = true
		}
	}
}
