package hsservice

import (
	"context"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

const (
	// lookMin and lookMax are between two looks at a fleet's descriptor that is as it should be;
	// lookSoon is after an upload, to notice another host that published meanwhile.
	lookMin, lookMax = 90 * time.Second, 150 * time.Second
	lookSoon         = 15 * time.Second
	// lookFresh is how old the last look may be when a descriptor is made.
	lookFresh = 5 * time.Second
	// lookTries is how many directories one look asks at most.
	lookTries = 4
)

// fleet is what makes a service one of several hosts.
type fleet struct {
	*hsfleet.Fleet
	gone chan struct{} // closed when the host has left

	leaving   time.Time // since; zero: it stays
	pointless bool      // it has closed its introduction points, and opens no others
}

func newFleet(k *Key) (*fleet, error) {
	f, err := hsfleet.New(k.Bytes())
	return &fleet{Fleet: f, gone: make(chan struct{})}, err
}

// clients adds the hosts' own key, if there is a fleet, to the clients that may read a descriptor.
func (f *fleet) clients(list []ident.X25519Key) []ident.X25519Key {
	if f == nil {
		return list
	}
	return f.Clients(list)
}

// roster returns the hosts whose points the next descriptor of x names, and which points.
func (s *Service) roster(x *descriptor, own []netdoc.HSIntroPoint, now time.Time) []hsfleet.Entry {
	var mine *hsfleet.Entry
	if s.fleet.leaving.IsZero() && len(own) > 0 {
		mine = &hsfleet.Entry{Host: s.fleet.Host, At: now.Truncate(time.Second), Effort: s.work.suggested(), Points: own}
	}
	return x.view.Roster(mine, x.pointRoom(), now)
}

// sawLocked compares a descriptor from a directory with what this host wants to be there.
func (s *Service) sawLocked(x *descriptor, got *netdoc.HSDescriptor, in *netdoc.HSInner, now time.Time) {
	ours := x.doc != nil && x.doc.Revision == got.Revision && x.doc.Signing == got.Signing
	if ours && x.revision == got.Revision {
		x.view.Alone()
		return
	}
	if got.Revision < x.revision {
		return // a directory that has missed the last one
	}
	others, mine, known := s.entriesLocked(x, got, in)
	if got.Revision == x.revision {
		if x.doc == nil || x.doc.Revision != got.Revision {
			return // it was seen before
		}
		// Another host has made one with the same number, so that each of the two
		// is at some directories.
		x.view.Merge(others)
		s.yieldLocked(x, now)
		if x.content != ([32]byte{}) { // else this host has waited for it already
			s.collide(x, now)
		}
		return
	}
	x.revision, x.floor, x.left = got.Revision, 0, nil
	if known { // else a program that knows nothing of fleets has overwritten it
		x.view.Others = others
		s.yieldLocked(x, now)
	}
	own := s.introPointsLocked(x, now)
	hosts := s.roster(x, own, now)
	want, pow := hsfleet.PointsOf(hosts), s.work.offer(in.PoW, hsfleet.EffortOf(hosts), now)
	// A host may have been told to ask for no proofs of work. This one does not correct it
	// at once: the two would publish without end.
	if hsfleet.SamePoints(want, in.Points) && (pow == in.PoW || pow == nil || in.PoW == nil) {
		// Another host has said what we would say.
		x.pow = pow
		x.content, x.retry = contentOf(x, s.allowed(x.dirs), want, offerText(pow)), time.Time{}
		x.view.Alone()
		if x.next = now.Add(hsfleet.RefreshMin); mine != nil {
			x.next = mine.At.Add(hsfleet.RefreshMin + time.Duration(random(int64(hsfleet.RefreshMax-hsfleet.RefreshMin))))
		}
		return
	}
	x.content = [32]byte{}
	if !s.leaving() && x.doc != nil && mine == nil && len(own) > 0 {
		s.collide(x, now) // our points were there, and a host that had not seen them published
	}
}

// entriesLocked returns the entries of the other hosts in a descriptor, and ours if it has one;
// ok is false if there are none to read. Points that no entry has are of a program that
// knows nothing of fleets: they are not repeated, for nobody could say how long.
func (s *Service) entriesLocked(x *descriptor, got *netdoc.HSDescriptor, in *netdoc.HSInner) (others []hsfleet.Entry, mine *hsfleet.Entry, ok bool) {
	if in.Fleet == nil {
		return nil, nil, false
	}
	hosts, err := s.fleet.Sealer.Open(in.Fleet, got.Blinded, got.Revision, hsfleet.Usable(in.Points, s.cfg.Network.Testing()))
	if err != nil {
		s.problem = err
		return nil, nil, false
	}
	for i, e := range hosts {
		if e.Host == s.fleet.Host {
			mine = &hosts[i]
		} else {
			others = append(others, e)
		}
	}
	return others, mine, true
}

// collide has this host wait for a random time, and look again before it publishes.
func (s *Service) collide(x *descriptor, now time.Time) {
	x.content, x.left = [32]byte{}, nil
	x.retry = now.Add(x.view.Collide())
}

// Withdraw takes the points of this host out of the descriptor of its fleet, so that new
// clients go to the other hosts; connections and introductions go on until Close. It
// returns when the descriptor is out, and at once if there is no fleet.
func (s *Service) Withdraw(ctx context.Context) error {
	if s.fleet == nil {
		return nil
	}
	s.mu.Lock()
	if s.fleet.leaving.IsZero() {
		s.fleet.leaving = time.Now()
		for _, x := range s.descs {
			x.retry = time.Time{} // at once
		}
	}
	s.mu.Unlock()
	s.kick()
	select {
	case <-s.fleet.gone:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-ctx.Done():
		return fault.Ended(ctx, "onion service: its points are still in the descriptor: %w", context.Cause(ctx))
	}
}

// leaving reports whether this host leaves its fleet.
func (s *Service) leaving() bool { return s.fleet != nil && !s.fleet.leaving.IsZero() }

// noteLeftLocked notes that nothing is to do. If this host leaves, and has looked at every
// descriptor since, none names its points any more.
func (s *Service) noteLeftLocked() {
	f := s.fleet
	if f.leaving.IsZero() || slices.ContainsFunc(s.descs, func(x *descriptor) bool { return x.view.Looked.Before(f.leaving) }) {
		return
	}
	select {
	case <-f.gone:
	default:
		close(f.gone)
	}
}
