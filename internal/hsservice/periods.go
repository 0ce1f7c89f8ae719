package hsservice

import (
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// runRounds is how many votes a run of the protocol for shared random values has.
const runRounds = 24

// period is a time period that a service publishes a descriptor for.
type period struct {
	hscrypto.Period
	srv [32]byte // orders the ring of directories
	// run is when the run of the shared random protocol began that the revision
	// counter counts from.
	run time.Time
}

// periodsOf returns the two periods for which a service publishes descriptors, the
// earlier first (rend-spec-v3, SERVICEUPLOAD): clients with an older consensus find
// the one, clients with a newer consensus the other.
func periodsOf(d *netdir.Directory, testing bool) [2]period {
	return periodsAt(d.HSTimes(testing), runRounds*d.FreshUntil().Sub(d.ValidAfter()), d.HSValues)
}

// periodsAt is periodsOf for a consensus's times, the length of a run, and the shared
// random values.
func periodsAt(t netdir.HSTimes, run time.Duration, values func(hscrypto.Period) (previous, current [32]byte)) [2]period {
	first, second := t.Period, t.Period.Next()
	if t.NewValue { // the period is younger than the value: clients use both together
		first, second = t.Period.Prev(), t.Period
	}
	previous, _ := values(first)
	_, current := values(second)
	return [2]period{{first, previous, t.RunStart.Add(-run)}, {second, current, t.RunStart}}
}

// directories returns the relays that must have a descriptor.
func (p *period) directories(d *netdir.Directory, blinded ident.Ed25519ID) []netdir.Relay {
	replicas, spread, _ := d.HSSpread()
	return d.HSRing(p.Period, p.srv).Responsible(blinded, replicas, spread)
}

// fetchDirectories returns those of them that clients ask.
func (p *period) fetchDirectories(d *netdir.Directory, blinded ident.Ed25519ID) []netdir.Relay {
	replicas, _, spread := d.HSSpread()
	return d.HSRing(p.Period, p.srv).Responsible(blinded, replicas, spread)
}
