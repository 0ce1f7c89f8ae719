package netdir

import (
	"bytes"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// A run of the protocol for shared random values has two phases of twelve rounds,
// each of one voting interval (srv-spec).
const (
	srvPhase = 12
	srvRun   = 2 * srvPhase
)

// HSTimes is what a consensus says about the time periods of onion services
// (rend-spec-v3, TIME-PERIODS). All of it follows from the consensus's own time:
// clocks that differ must not give different directories.
type HSTimes struct {
	Period   hscrypto.Period // at the consensus's valid-after
	Offset   time.Duration   // see hscrypto.PeriodAt
	RunStart time.Time       // of the run that makes the next shared random value
	// NewValue says that the period began after RunStart's value was published:
	// between the start of a period and the next shared random value.
	NewValue bool
}

// HSTimes returns the times of the consensus. testing is for networks that run C
// tor's TestingTorNetwork: if the consensus does not say how long a period is, it
// is as long as a run there, and a day elsewhere.
func (d *Directory) HSTimes(testing bool) HSTimes {
	at := d.ValidAfter()
	interval := max(d.FreshUntil().Sub(at), time.Second)
	minutes := uint64(d.Param("hsdir_interval", 0, 0, hscrypto.MaxPeriod))
	switch {
	case minutes == 0 && testing:
		minutes = uint64(max(srvRun*interval/time.Minute, 1))
	case minutes == 0:
		minutes = hscrypto.DefaultPeriod
	default:
		minutes = max(minutes, hscrypto.MinPeriod)
	}
	// C tor counts the offset in whole minutes.
	t := HSTimes{Offset: (srvPhase * interval).Truncate(time.Minute)}
	t.Period = hscrypto.PeriodAt(at, minutes, t.Offset)
	round := at.Unix() / int64(interval/time.Second) % srvRun
	t.RunStart = at.Add(-time.Duration(round) * interval)
	next := hscrypto.PeriodAt(t.RunStart, minutes, t.Offset).End(t.Offset)
	t.NewValue = at.Before(t.RunStart) || !at.Before(next)
	return t
}

// HSValues returns the shared random values of the consensus, or what stands for
// one that is missing in the given period.
func (d *Directory) HSValues(p hscrypto.Period) (previous, current [32]byte) {
	value := func(v *netdoc.SharedRandom) [32]byte {
		if v == nil {
			return hscrypto.DisasterSRV(p)
		}
		return v.Value
	}
	prev, cur := d.SharedRandom()
	return value(prev), value(cur)
}

// HSFetchRing returns the ring from which clients fetch descriptors of the current
// period.
func (d *Directory) HSFetchRing(t HSTimes) *HSRing {
	previous, current := d.HSValues(t.Period)
	if t.NewValue {
		return d.HSRing(t.Period, current)
	}
	return d.HSRing(t.Period, previous)
}

// HSRing is the hash ring of the relays that keep descriptors of onion services
// in one time period (rend-spec-v3, WHERE-HSDESC).
type HSRing struct {
	period hscrypto.Period
	nodes  []hsNode // by index
}

type hsNode struct {
	index [32]byte
	relay Relay
}

// HSRing returns the ring of a period by a shared random value: of relays with the
// flag HSDir that speak version 2 of the subprotocol and whose microdescriptor is
// there. Those with the flag MiddleOnly are left out, as the authorities mean it.
func (d *Directory) HSRing(p hscrypto.Period, srv [32]byte) *HSRing {
	r := &HSRing{period: p}
	for relay := range d.All() {
		if !relay.Has(FlagHSDir) || relay.Has(FlagMiddleOnly) || !relay.Protocols().Has(protover.HSDir, protover.HSDirV3) || relay.ID().Ed.IsZero() {
			continue
		}
		r.nodes = append(r.nodes, hsNode{hscrypto.NodeIndex(relay.ID().Ed, srv, p), relay})
	}
	slices.SortFunc(r.nodes, func(a, b hsNode) int { return bytes.Compare(a.index[:], b.index[:]) })
	return r
}

// Responsible returns the directories of a blinded key: of each replica, spread
// relays from the descriptor's place on. A relay that an earlier replica has is
// passed over.
func (r *HSRing) Responsible(blinded ident.Ed25519ID, replicas, spread int) []Relay {
	var out []Relay
	taken := make(map[int]bool, replicas*spread)
	for replica := 1; replica <= replicas; replica++ {
		at := hscrypto.StoreIndex(blinded, uint64(replica), r.period)
		start, _ := slices.BinarySearchFunc(r.nodes, at, func(n hsNode, at [32]byte) int { return bytes.Compare(n.index[:], at[:]) })
		for i, added := 0, 0; i < len(r.nodes) && added < spread; i++ {
			j := (start + i) % len(r.nodes)
			if !taken[j] {
				taken[j] = true
				added++
				out = append(out, r.nodes[j].relay)
			}
		}
	}
	return out
}

// HSSpread returns how many replicas of a descriptor there are, and on how many
// relays services store each and clients look for it.
func (d *Directory) HSSpread() (replicas, store, fetch int) {
	return int(d.Param("hsdir_n_replicas", 2, 1, 16)), int(d.Param("hsdir_spread_store", 4, 1, 128)), int(d.Param("hsdir_spread_fetch", 3, 1, 128))
}
