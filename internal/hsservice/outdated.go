package hsservice

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// tendOutdatedLocked looks at what a new consensus changes.
//
// Points of another SENDME increment than the consensus's end: clients that ask there expect the
// one that their descriptor tells, and a descriptor tells one for all points. Points whose relays
// have left the consensus are replaced, because the authorities may have thrown them out, and so
// are those of relays that are only allowed as middles by now. The microdescriptor of a relay that
// is listed may be missing for a while.
func (s *Service) tendOutdatedLocked(d *netdir.Directory) {
	s.inc = 0
	if params, on := s.cfg.Network.Flow(); on {
		s.inc = params.SendmeInc // 254 at most: flow.ParamsFrom
	}
	s.points = slices.DeleteFunc(s.points, func(p *point) bool {
		if p.inc == s.inc {
			r, listed := d.Lookup(p.target.RSA)
			bad := !listed || r.Has(netdir.FlagMiddleOnly)
			p.renew = p.renew || bad && !p.target.RSA.IsZero()
			return false
		}
		s.endLocked(p)
		p.of.since = time.Time{} // the next descriptor waits for several, as the first
		return true
	})
}
