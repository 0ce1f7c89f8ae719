package client

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// mostOutdated is how many caches may lack microdescriptors before C tor's clients conclude that something else is
// wrong, and begin again.
const mostOutdated = 30

// outdated holds the caches that lack microdescriptors of the newest consensus, until there is another one: requests for
// microdescriptors go to other guards, as those of C tor's clients do.
type outdated struct {
	mu     sync.Mutex // guards the fields below
	since  time.Time  // the consensus's
	caches map[ident.RSAID]struct{}
}

// note notes a cache. Caches have what the consensuses of some days name: of an older one nothing follows. Authorities are not
// passed over, as nobody else would have what they lack.
func (o *outdated) note(cache ident.RSAID, newest *netdir.Directory, n *netdir.Network, now time.Time) {
	if newest == nil || !newest.ReasonablyLive(now) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !newest.ValidAfter().Equal(o.since) || len(o.caches) > mostOutdated {
		o.since, o.caches = newest.ValidAfter(), map[ident.RSAID]struct{}{}
	}
	if !slices.ContainsFunc(n.Authorities, func(a netdir.Authority) bool { return a.RSA == cache }) {
		o.caches[cache] = struct{}{}
	}
}

// of returns the caches that lack something of the newest consensus.
func (o *outdated) of(newest *netdir.Directory) []ident.RSAID {
	o.mu.Lock()
	defer o.mu.Unlock()
	if newest == nil || !newest.ValidAfter().Equal(o.since) {
		return nil
	}
	return slices.Collect(maps.Keys(o.caches))
}
