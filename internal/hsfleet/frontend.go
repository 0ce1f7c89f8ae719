package hsfleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// A frontend gives its clients to backends, which are services with keys of their own:
// its descriptors name their introduction points, certified by its own key. It fetches
// the backends' descriptors as a client does. What OnionBalance does, this does, too.

const (
	// MaxBackends is how many backends a frontend may have: each has one introduction
	// point in the descriptor at least.
	MaxBackends = netdoc.MaxIntroPoints
	// backendStale is how long a backend may publish nothing before it counts as down:
	// directories keep its last descriptor for hours. Living services publish every two
	// hours at least.
	backendStale = 135 * time.Minute
	// In changeWindow at most MaxChanges changes of one backend's points are followed.
	changeWindow = time.Hour
	// MaxChanges is how often the points of one backend are followed in an hour.
	MaxChanges = 12
)

// Frontend is a service whose clients backends serve.
type Frontend struct {
	Backends []*Backend
	rounds   int // of looks at all of them that are over
}

// Backend is a service that serves the frontend's clients.
type Backend struct {
	ID       ident.Ed25519ID
	blinded  ident.Ed25519ID // of the period of the last descriptor
	revision uint64          // of the last descriptor
	since    time.Time       // when it was new
	latest   offer
	used     offer // what the frontend's descriptors have
	changes  []time.Time
}

// offer is what a backend's descriptor offers to clients.
type offer struct {
	points []netdoc.HSIntroPoint
	flow   protover.Set
	inc    uint8
	cgo    bool
	half   bool
}

func (o *offer) same(p *offer) bool {
	return SamePoints(o.points, p.points) && o.agrees(p) && o.cgo == p.cgo && o.half == p.half
}

// agrees reports whether both say the same about congestion control.
func (o *offer) agrees(p *offer) bool {
	return o.inc == p.inc && o.flow.Versions("FlowCtrl") == p.flow.Versions("FlowCtrl")
}

// NewFrontend returns a frontend with these backends.
func NewFrontend(ids []ident.Ed25519ID) *Frontend {
	b := new(Frontend)
	for _, id := range ids {
		b.Backends = append(b.Backends, &Backend{ID: id})
	}
	return b
}

// Points returns the introduction points of all backends, and at most so many.
func (f *Frontend) Points(most int) (out []netdoc.HSIntroPoint) {
	if f.rounds == 0 {
		return nil // some were not asked yet
	}
	var lists [][]netdoc.HSIntroPoint
	for _, e := range f.Backends {
		lists = append(lists, e.used.points)
	}
	return slices.Concat(Share(lists, most)...)
}

// OfferFlow copies the backends' line about congestion control, if all have the same,
// and the one about CGO, if all have it: the client does not know which one it will
// meet.
func (f *Frontend) OfferFlow(inner *netdoc.HSInner) {
	var first *offer
	cgo := true
	for _, e := range f.Backends {
		o := &e.used
		if len(o.points) == 0 {
			continue
		}
		cgo = cgo && o.cgo
		if first != nil && !first.agrees(o) {
			return
		}
		if first == nil {
			first = o
		}
	}
	if first != nil {
		inner.FlowControl, inner.SendmeInc, inner.CGO = first.flow, first.inc, cgo && first.inc != 0
	}
}

// HalfClose reports whether all backends take HALF_CLOSE.
func (f *Frontend) HalfClose() bool {
	return !slices.ContainsFunc(f.Backends, func(e *Backend) bool { return len(e.used.points) > 0 && !e.used.half })
}

// Offer is what the descriptors say besides their points.
func (f *Frontend) Offer() string {
	var in netdoc.HSInner
	f.OfferFlow(&in)
	return fmt.Sprintf("%s %d %t %t", in.FlowControl.Versions("FlowCtrl"), in.SendmeInc, in.CGO, f.HalfClose())
}

// unclaimed omits points with the key of one that another backend has already: a backend
// could name them elsewhere, so that nobody finds them.
func (f *Frontend) unclaimed(of *Backend, points []netdoc.HSIntroPoint) []netdoc.HSIntroPoint {
	return slices.DeleteFunc(points, func(p netdoc.HSIntroPoint) bool {
		return slices.ContainsFunc(f.Backends, func(e *Backend) bool {
			return e != of && slices.ContainsFunc(e.used.points, func(o netdoc.HSIntroPoint) bool { return o.Auth == p.Auth })
		})
	})
}

// follow has the frontend use what the backend offers at last, unless that changes too
// often: each change costs a dozen of uploads.
func (e *Backend) follow(now time.Time) {
	if e.used.same(&e.latest) {
		return
	}
	e.changes = slices.DeleteFunc(e.changes, func(t time.Time) bool { return now.Sub(t) >= changeWindow })
	if len(e.changes) < MaxChanges {
		e.changes = append(e.changes, now)
		e.used = e.latest
	}
}

// Known returns the revision of a backend's newest descriptor that is known; zero: none is.
func (e *Backend) Known(blinded ident.Ed25519ID) uint64 {
	if e.blinded == blinded {
		return e.revision
	}
	return 0
}

// Learn takes over what a backend's descriptor with a blinded key and a revision offers, if it
// is newer. points are those of its introduction points that can be used.
func (f *Frontend) Learn(e *Backend, blinded ident.Ed25519ID, revision uint64, in *netdoc.HSInner, points []netdoc.HSIntroPoint, now time.Time) {
	if e.blinded != blinded || revision > e.revision {
		e.blinded, e.revision, e.since = blinded, revision, now
		e.latest = offer{f.unclaimed(e, points), in.FlowControl, in.SendmeInc, in.CGO, in.HalfClose}
		e.follow(now)
		return
	}
	f.Missed(e, false, now)
}

// Missed notes that a look found no newer descriptor. gone says that directories have none at
// all.
func (f *Frontend) Missed(e *Backend, gone bool, now time.Time) {
	if gone || now.Sub(e.since) >= backendStale {
		e.latest = offer{}
	}
	e.follow(now)
}

// EndRound notes that all backends were looked at.
func (f *Frontend) EndRound() { f.rounds++ }
