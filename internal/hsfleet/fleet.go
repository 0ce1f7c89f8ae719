package hsfleet

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
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
//   - an entry says when its host wrote it, and nobody repeats it after EntryLife. So a
//     host that died drops out, and a living one publishes every refreshMin to refreshMax;
//   - a host that leaves publishes once more, without its own points.
const (
	// EntryLife is how long the other hosts repeat an entry.
	EntryLife = 20 * time.Minute
	// RefreshMin and RefreshMax are between two descriptors of a living host.
	RefreshMin, RefreshMax = 6 * time.Minute, 8 * time.Minute
	// maxSkew is how far ahead the clock of another host may be.
	maxSkew = 10 * time.Minute
	// After a collision a host waits at random, up to collideMin at first.
	collideMin, collideMax = 2 * time.Second, 2 * time.Minute
	// In publishWindow a host makes at most maxPublishes descriptors of one period.
	publishWindow = 10 * time.Minute
	maxPublishes  = 20
)

// Fleet is what a host needs to be one of several.
type Fleet struct {
	Host   HostID
	Sealer Sealer
	// Client reads descriptors that are for authorized clients.
	Client *ecdh.PrivateKey
}

// New returns a host of the fleet of a service with this secret key.
func New(key []byte) (*Fleet, error) {
	f := new(Fleet)
	_, _ = rand.Read(f.Host[:]) // never fails (crypto/rand)
	secret := Secret(key, "client")
	var err, cerr error
	f.Sealer, err = newSealer(key)
	f.Client, cerr = ecdh.X25519().NewPrivateKey(secret[:])
	return f, errors.Join(err, fault.Wrap(fault.Local, cerr))
}

// Clients adds the hosts' own key to the clients that may read a descriptor.
func (f *Fleet) Clients(list []ident.X25519Key) []ident.X25519Key {
	if len(list) == 0 {
		return list // everybody may
	}
	return append(slices.Clone(list), ident.X25519Key(f.Client.PublicKey().Bytes()))
}

// View is what a host knows of one period's descriptor.
type View struct {
	Others []Entry   // of the other hosts
	Looked time.Time // when the last look ended
	Next   time.Time // when to look again
	Named  bool      // a look has found a point of this host

	collisions int
	published  []time.Time // in publishWindow
}

// Roster returns the hosts whose points the next descriptor names, and which points: at
// most so many. own is this host's entry; nil: it has none. All hosts compute the same from
// the same entries.
func (v *View) Roster(own *Entry, most int, now time.Time) (hosts []Entry) {
	for _, e := range v.Others {
		if e.Fresh(now) {
			hosts = append(hosts, e)
		}
	}
	if own != nil {
		hosts = append(hosts, *own)
	}
	slices.SortFunc(hosts, func(a, b Entry) int { return bytes.Compare(a.Host[:], b.Host[:]) })
	hosts = hosts[:min(len(hosts), MaxHosts)]
	var lists [][]netdoc.HSIntroPoint
	for _, e := range hosts {
		lists = append(lists, Usable(e.Points, true)) // this host's own are not sorted
	}
	for i, l := range Share(lists, most) {
		hosts[i].Points = l
	}
	return slices.DeleteFunc(hosts, func(e Entry) bool { return len(e.Points) == 0 })
}

// Relays returns the relays at which the other hosts have introduction points.
func (v *View) Relays(now time.Time) []ident.RSAID {
	return v.RelaysOf(now, func(HostID) bool { return true })
}

// RelaysOf is Relays for some of the hosts.
func (v *View) RelaysOf(now time.Time, some func(HostID) bool) (out []ident.RSAID) {
	for _, e := range v.Others {
		if !e.Fresh(now) || !some(e.Host) {
			continue
		}
		for _, p := range e.Points {
			if t, err := linkspec.TargetOf(p.Specs); err == nil { // Open's are usable
				out = append(out, t.RSA)
			}
		}
	}
	return out
}

// PointsOf returns the points of all hosts.
func PointsOf(hosts []Entry) (out []netdoc.HSIntroPoint) {
	for _, e := range hosts {
		out = append(out, e.Points...)
	}
	return out
}

// EffortOf returns the effort that the hosts together ask of clients: a client does not know
// which host it will meet.
func EffortOf(hosts []Entry) (effort uint32) {
	for _, e := range hosts {
		effort = max(effort, e.Effort)
	}
	return effort
}

// Fresh reports whether a host's entry is repeated in the next descriptor.
func (e *Entry) Fresh(now time.Time) bool {
	age := now.Sub(e.At)
	return age >= -maxSkew && age < EntryLife
}

// Merge adds the entries of hosts that are not known, and those that are newer.
func (v *View) Merge(others []Entry) {
	for _, e := range others {
		i := slices.IndexFunc(v.Others, func(o Entry) bool { return o.Host == e.Host })
		switch {
		case i < 0:
			v.Others = append(v.Others, e)
		case e.At.After(v.Others[i].At):
			v.Others[i] = e
		}
	}
}

// Pause is how long no descriptor may be made, because there were too many.
func (v *View) Pause(now time.Time) time.Duration {
	if len(v.published) < maxPublishes {
		return 0
	}
	return v.published[0].Add(publishWindow).Sub(now)
}

// Count counts a descriptor that is published.
func (v *View) Count(now time.Time) {
	v.published = slices.DeleteFunc(v.published, func(t time.Time) bool { return now.Sub(t) >= publishWindow })
	v.published = append(v.published, now)
}

// Counted returns how many descriptors count.
func (v *View) Counted() int { return len(v.published) }

// Collide notes that another host published at the same time. It returns for how long to wait
// before the next look.
func (v *View) Collide() time.Duration {
	most := min(collideMax, collideMin<<min(v.collisions, 10))
	v.collisions++
	v.Looked = time.Time{}
	return time.Duration(random(int64(most)))
}

// Alone notes that nobody came in between.
func (v *View) Alone() { v.collisions = 0 }
