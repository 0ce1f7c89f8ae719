package hsservice

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// A fleet is several hosts that have one service's key. Each has introduction points of
// its own, and the descriptor names those of all. The hosts know each other only from
// the descriptor that clients fetch:
//
//   - a host looks at it now and then, and always before it publishes another one, in
//     which it repeats the points of the other hosts;
//   - a host whose points are missing publishes again: two that published at the same
//     time wait for random times, which double, so that one of them comes first;
//   - an entry says when its host wrote it, and nobody repeats it after entryLife. So a
//     host that died drops out, and a living one publishes every refreshMin to refreshMax;
//   - a host that leaves publishes once more, without its own points.
const (
	entryLife              = 20 * time.Minute
	refreshMin, refreshMax = 6 * time.Minute, 8 * time.Minute
	// maxSkew is how far ahead the clock of another host may be.
	maxSkew = 10 * time.Minute
	// lookMin and lookMax are between two looks at a descriptor that is as it should be;
	// lookSoon is after an upload, to notice another host that published meanwhile.
	lookMin, lookMax = 90 * time.Second, 150 * time.Second
	lookSoon         = 15 * time.Second
	// lookFresh is how old the last look may be when a descriptor is made.
	lookFresh = 5 * time.Second
	// lookTries is how many directories one look asks at most.
	lookTries = 4
	// After a collision a host waits at random, up to collideMin at first.
	collideMin, collideMax = 2 * time.Second, 2 * time.Minute
	// In publishWindow a host makes at most maxPublishes descriptors of one period.
	publishWindow = 10 * time.Minute
	maxPublishes  = 20
)

// fleet is what makes a service one of several hosts.
type fleet struct {
	host   hostID
	seal   fleetSeal
	client *ecdh.PrivateKey // reads descriptors that are for authorized clients
	gone   chan struct{}    // closed when the host has left

	leaving   time.Time // since; zero: it stays
	pointless bool      // it has closed its introduction points, and opens no others
}

// fleetView is what a host knows of one period's descriptor.
type fleetView struct {
	others     []hostEntry // of the other hosts
	looked     time.Time   // when the last look ended
	next       time.Time   // when to look again
	collisions int
	published  []time.Time // in publishWindow
	named      bool        // a look has found a point of ours
}

func newFleet(k *Key) (*fleet, error) {
	f := &fleet{gone: make(chan struct{})}
	_, _ = rand.Read(f.host[:]) // never fails (crypto/rand)
	secret := fleetSecret(k, "client")
	var err, cerr error
	f.seal, err = newFleetSeal(k)
	f.client, cerr = ecdh.X25519().NewPrivateKey(secret[:])
	return f, errors.Join(err, fault.Wrap(fault.Local, cerr))
}

// clients adds the hosts' own key to the clients that may read a descriptor.
func (f *fleet) clients(list []ident.X25519Key) []ident.X25519Key {
	if f == nil || len(list) == 0 {
		return list // everybody may
	}
	return append(slices.Clone(list), ident.X25519Key(f.client.PublicKey().Bytes()))
}

// roster returns the hosts whose points the next descriptor of x names, and which
// points. All hosts compute the same from the same entries.
func (s *Service) roster(x *descriptor, own []netdoc.HSIntroPoint, now time.Time) (hosts []hostEntry) {
	for _, e := range x.view.others {
		if e.fresh(now) {
			hosts = append(hosts, e)
		}
	}
	if s.fleet.leaving.IsZero() && len(own) > 0 {
		hosts = append(hosts, hostEntry{s.fleet.host, now.Truncate(time.Second), s.work.suggested(), own})
	}
	slices.SortFunc(hosts, func(a, b hostEntry) int { return bytes.Compare(a.host[:], b.host[:]) })
	hosts = hosts[:min(len(hosts), maxHosts)]
	var lists [][]netdoc.HSIntroPoint
	for _, e := range hosts {
		lists = append(lists, usable(e.points, true)) // this host's own are not sorted
	}
	for i, l := range share(lists, x.pointRoom()) {
		hosts[i].points = l
	}
	return slices.DeleteFunc(hosts, func(e hostEntry) bool { return len(e.points) == 0 })
}

// pointsOf returns the points of all hosts.
func pointsOf(hosts []hostEntry) (out []netdoc.HSIntroPoint) {
	for _, e := range hosts {
		out = append(out, e.points...)
	}
	return out
}

// effortOf returns the effort that the hosts together ask of clients: a client does not know
// which host it will meet.
func effortOf(hosts []hostEntry) (effort uint32) {
	for _, e := range hosts {
		effort = max(effort, e.effort)
	}
	return effort
}

// pause is how long no descriptor may be made, because there were too many.
func (v *fleetView) pause(now time.Time) time.Duration {
	if len(v.published) < maxPublishes {
		return 0
	}
	return v.published[0].Add(publishWindow).Sub(now)
}

// count counts a descriptor that is published.
func (v *fleetView) count(now time.Time) {
	v.published = slices.DeleteFunc(v.published, func(t time.Time) bool { return now.Sub(t) >= publishWindow })
	v.published = append(v.published, now)
}

// fresh reports whether a host's entry is repeated in the next descriptor.
func (e *hostEntry) fresh(now time.Time) bool {
	age := now.Sub(e.at)
	return age >= -maxSkew && age < entryLife
}

// saw compares a descriptor from a directory with what this host wants to be there.
func (s *Service) saw(x *descriptor, got *netdoc.HSDescriptor, in *netdoc.HSInner, now time.Time) {
	ours := x.doc != nil && x.doc.Revision == got.Revision && x.doc.Signing == got.Signing
	if ours && x.revision == got.Revision {
		x.view.collisions = 0 // nobody came in between
		return
	}
	if got.Revision < x.revision {
		return // a directory that has missed the last one
	}
	others, mine, known := s.entries(x, got, in)
	if got.Revision == x.revision {
		if x.doc == nil || x.doc.Revision != got.Revision {
			return // it was seen before
		}
		// Another host has made one with the same number, so that each of the two
		// is at some directories.
		s.merge(x, others)
		if x.content != ([32]byte{}) { // else this host has waited for it already
			s.collide(x, now)
		}
		return
	}
	x.revision, x.floor, x.left = got.Revision, 0, nil
	if known { // else a program that knows nothing of fleets has overwritten it
		x.view.others = others
	}
	own := s.introPoints(now)
	hosts := s.roster(x, own, now)
	want, pow := pointsOf(hosts), s.work.offer(in.PoW, effortOf(hosts), now)
	// A host may have been told to ask for no proofs of work. This one does not correct it
	// at once: the two would publish without end.
	if samePoints(want, in.Points) && (pow == in.PoW || pow == nil || in.PoW == nil) {
		// Another host has said what we would say.
		x.pow = pow
		x.content, x.retry, x.view.collisions = contentOf(x, s.allowed(x.dirs), want, offerText(pow)), time.Time{}, 0
		if x.next = now.Add(refreshMin); mine != nil {
			x.next = mine.at.Add(refreshMin + time.Duration(random(int64(refreshMax-refreshMin))))
		}
		return
	}
	x.content = [32]byte{}
	if !s.leaving() && x.doc != nil && mine == nil && len(own) > 0 {
		s.collide(x, now) // our points were there, and a host that had not seen them published
	}
}

// entries returns the entries of the other hosts in a descriptor, and ours if it has one;
// ok is false if there are none to read. Points that no entry has are of a program that
// knows nothing of fleets: they are not repeated, for nobody could say how long.
func (s *Service) entries(x *descriptor, got *netdoc.HSDescriptor, in *netdoc.HSInner) (others []hostEntry, mine *hostEntry, ok bool) {
	if in.Fleet == nil {
		return nil, nil, false
	}
	hosts, err := s.fleet.seal.open(in.Fleet, got.Blinded, got.Revision, usable(in.Points, s.cfg.Circuits.Testing()))
	if err != nil {
		s.problem = err
		return nil, nil, false
	}
	for i, e := range hosts {
		if e.host == s.fleet.host {
			mine = &hosts[i]
		} else {
			others = append(others, e)
		}
	}
	return others, mine, true
}

// merge adds the entries of hosts that are not known, and those that are newer.
func (s *Service) merge(x *descriptor, others []hostEntry) {
	for _, e := range others {
		i := slices.IndexFunc(x.view.others, func(o hostEntry) bool { return o.host == e.host })
		switch {
		case i < 0:
			x.view.others = append(x.view.others, e)
		case e.at.After(x.view.others[i].at):
			x.view.others[i] = e
		}
	}
}

// collide has this host wait for a random time, and look again before it publishes.
func (s *Service) collide(x *descriptor, now time.Time) {
	most := min(collideMax, collideMin<<min(x.view.collisions, 10))
	x.view.collisions++
	x.content, x.left = [32]byte{}, nil
	x.retry = now.Add(time.Duration(random(int64(most))))
	x.view.looked = time.Time{}
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

// left notes that nothing is to do. If this host leaves, and has looked at every
// descriptor since, none names its points any more.
func (s *Service) left() {
	f := s.fleet
	if f.leaving.IsZero() || slices.ContainsFunc(s.descs, func(x *descriptor) bool { return x.view.looked.Before(f.leaving) }) {
		return
	}
	select {
	case <-f.gone:
	default:
		close(f.gone)
	}
}
