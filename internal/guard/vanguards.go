package guard

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// VanguardMode says which hops of circuits for onion services are vanguards.
type VanguardMode uint8

// The modes. An onion service can make a client, and a client can make a service, build
// circuit after circuit, until one passes through relays of an attacker that looks for
// the guard. So the hops after the guard are few relays that stay for a while.
const (
	// VanguardsAuto is VanguardsLite, unless the consensus turns it off.
	VanguardsAuto VanguardMode = iota
	// VanguardsLite has second hops that stay for days. They are not saved, as in C tor
	// (proposal 333).
	VanguardsLite
	// VanguardsFull has second hops that stay for days, and third hops that stay for
	// hours (proposal 292). Both are saved.
	VanguardsFull
	// VanguardsOff has none.
	VanguardsOff
)

// layerRow is one layer of vanguards: how many there are, and for how many seconds, by
// the consensus.
type layerRow struct {
	param          string // the start of the parameters' names
	number         int32
	shortest, long int32
	// longer takes the longer of two random lifetimes: an attacker that must wait for a
	// place in the layer waits longer.
	longer bool
}

// layerRows are the layers of the modes.
var layerRows = map[VanguardMode][]layerRow{
	VanguardsAuto: {{"guard-hs-l2", 4, 24 * 3600, 12 * 24 * 3600, false}},
	VanguardsLite: {{"guard-hs-l2", 4, 24 * 3600, 12 * 24 * 3600, false}},
	VanguardsFull: {{"guard-hs-l2", 4, 24 * 3600, 12 * 24 * 3600, true}, {"guard-hs-l3", 8, 3600, 48 * 3600, true}},
}

// maxVanguards bounds a layer, whatever the consensus says, as in C tor.
const maxVanguards = 19

// vanguard is a member of a layer.
type vanguard struct {
	id      ident.RSAID
	expires time.Time
}

// Vanguards are the relays for the hops after the guard on circuits for onion services.
// Its methods may be called from any goroutine.
type Vanguards struct {
	mode    VanguardMode
	rows    []layerRow
	store   Store
	log     *slog.Logger
	changed chan struct{}
	saving  sync.Mutex // held while a state is saved; before mu

	mu     sync.Mutex   // guards what follows
	layers [][]vanguard // by row
	dirty  bool         // something changed since the last save
}

// NewVanguards returns the vanguards of a mode; those of VanguardsFull are the ones that
// store has. A damaged state is reported and set aside.
func NewVanguards(mode VanguardMode, store Store, log *slog.Logger, now time.Time) (*Vanguards, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	v := &Vanguards{mode: mode, rows: layerRows[mode], store: store, log: log, changed: make(chan struct{}, 1)}
	v.layers = make([][]vanguard, len(v.rows))
	if mode != VanguardsFull {
		return v, nil
	}
	return v, v.load(now)
}

// NewIdentity replaces the vanguards, which would link a user's identities to each other,
// as in C tor. Those of VanguardsFull stay: they are chosen to stay.
func (v *Vanguards) NewIdentity() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mode != VanguardsFull {
		clear(v.layers)
	}
}

// Layers returns the relays for the second hop, and with full vanguards those for the
// third one; nil without vanguards. Relays that have left the network, that ok refuses,
// or whose time is over are replaced.
func (v *Vanguards) Layers(d *netdir.Directory, ok func(netdir.Relay) bool, rng *rand.Rand, now time.Time) [][]ident.RSAID {
	if v.mode == VanguardsAuto && d.Param("vanguards-lite-enabled", 1, 0, 1) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var out [][]ident.RSAID
	for i := range v.rows {
		out = append(out, v.tendLocked(i, d, ok, rng, now))
	}
	return out
}

func (v *Vanguards) tendLocked(i int, d *netdir.Directory, ok func(netdir.Relay) bool, rng *rand.Rand, now time.Time) []ident.RSAID {
	row, list := &v.rows[i], v.layers[i]
	shortest, longest := row.lifetimes(d)
	had := len(list)
	list = slices.DeleteFunc(list, func(g vanguard) bool {
		r, listed := d.Lookup(g.id)
		// A time that is too far off comes from a clock that was wrong.
		return !now.Before(g.expires) || g.expires.Sub(now) > longest || !listed || !goodVanguard(r, ok)
	})
	changed := len(list) != had
	want := int(d.Param(row.param+"-number", row.number, 1, maxVanguards))
	for len(list) < want {
		r, found := d.Pick(rng, netdir.PosMiddle, func(r netdir.Relay) bool {
			return goodVanguard(r, ok) && r.HasMicrodesc() && !slices.ContainsFunc(list, func(g vanguard) bool { return g.id == r.RSA() })
		})
		if !found {
			break
		}
		// Whole seconds, which survive being saved.
		list = append(list, vanguard{r.RSA(), now.Add(row.lifetime(shortest, longest, rng)).Truncate(time.Second)})
		changed = true
	}
	v.layers[i] = list
	if changed && v.mode == VanguardsFull {
		v.dirty = true
		select {
		case v.changed <- struct{}{}:
		default:
		}
	}
	out := make([]ident.RSAID, len(list))
	for n, g := range list {
		out[n] = g.id
	}
	return out
}

// goodVanguard reports whether a relay may be a vanguard, or go on as one. One with the flag
// MiddleOnly is suspected, and must not sit beside the guard for days.
func goodVanguard(r netdir.Relay, ok func(netdir.Relay) bool) bool {
	return r.Has(netdir.FlagFast|netdir.FlagStable|netdir.FlagRunning|netdir.FlagValid) && !r.Has(netdir.FlagMiddleOnly) && ok(r)
}

// lifetimes returns the bounds of how long a vanguard is used.
func (row *layerRow) lifetimes(d *netdir.Directory) (shortest, longest time.Duration) {
	lo := d.Param(row.param+"-lifetime-min", row.shortest, 1, 1<<31-1)
	hi := max(d.Param(row.param+"-lifetime-max", row.long, 1, 1<<31-1), lo)
	return time.Duration(lo) * time.Second, time.Duration(hi) * time.Second
}

func (row *layerRow) lifetime(shortest, longest time.Duration, rng *rand.Rand) time.Duration {
	if longest == shortest {
		return shortest
	}
	life := rng.Int64N(int64(longest - shortest))
	if row.longer {
		life = max(life, rng.Int64N(int64(longest-shortest)))
	}
	return shortest + time.Duration(life)
}
