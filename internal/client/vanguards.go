package client

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
)

// vanguards are the second hops of circuits for onion services (vanguards-spec,
// "Vanguards-lite"): few relays for days, because an onion service can make a client
// build circuit after circuit, until one passes through relays of an attacker's who
// looks for the guard. They are not saved, as in C tor.
type vanguards struct {
	mu   sync.Mutex
	list []vanguard // guarded by mu
}

type vanguard struct {
	id      ident.RSAID
	expires time.Time
}

// choose returns the relays to use now; none if the consensus wants no vanguards.
func (v *vanguards) choose(d *netdir.Directory, cfg *path.Config, rng *rand.Rand, now time.Time) []ident.RSAID {
	if d.Param("vanguards-lite-enabled", 1, 0, 1) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = slices.DeleteFunc(v.list, func(g vanguard) bool {
		r, listed := d.Lookup(g.id)
		return !now.Before(g.expires) || !listed || !good(r, cfg)
	})
	for want := int(d.Param("guard-hs-l2-number", 4, 1, 19)); len(v.list) < want; {
		r, ok := d.Pick(rng, netdir.PosMiddle, func(r netdir.Relay) bool {
			return good(r, cfg) && r.HasMicrodesc() && !slices.ContainsFunc(v.list, func(g vanguard) bool { return g.id == r.RSA() })
		})
		if !ok {
			break
		}
		v.list = append(v.list, vanguard{r.RSA(), now.Add(vanguardLife(d, rng))})
	}
	out := make([]ident.RSAID, len(v.list))
	for i, g := range v.list {
		out[i] = g.id
	}
	return out
}

// good reports whether a relay may be a vanguard, or go on as one.
func good(r netdir.Relay, cfg *path.Config) bool {
	const flags = netdir.FlagFast | netdir.FlagStable | netdir.FlagRunning
	return r.Flags()&flags == flags && !cfg.Exclude.Has(r)
}

// vanguardLife returns how long a new vanguard is used: 1 to 12 days, unless the
// consensus says otherwise.
func vanguardLife(d *netdir.Directory, rng *rand.Rand) time.Duration {
	const day = 24 * 60 * 60
	least := d.Param("guard-hs-l2-lifetime-min", day, 1, 1<<31-1)
	most := d.Param("guard-hs-l2-lifetime-max", 12*day, 1, 1<<31-1)
	seconds := int64(least)
	if most > least {
		seconds += rng.Int64N(int64(most - least))
	}
	return time.Duration(seconds) * time.Second
}
