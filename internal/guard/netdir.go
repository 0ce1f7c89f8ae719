package guard

import (
	"iter"
	"net/netip"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// flags are the flags of a relay that is usable as a guard for all purposes
// (guard-spec, section GUARDS).
const flags = netdir.FlagRunning | netdir.FlagValid | netdir.FlagGuard | netdir.FlagStable | netdir.FlagFast | netdir.FlagV2Dir

// canBe reports whether a relay may be a guard. The authorities suspect those with the flag
// MiddleOnly, and take the flag Guard from them; this does not rely on it.
func canBe(r netdir.Relay) bool { return r.Has(flags) && !r.Has(netdir.FlagMiddleOnly) }

// FromNetdir returns d as a Directory for a Manager.
func FromNetdir(d *netdir.Directory) Directory { return view{d} }

type view struct{ *netdir.Directory }

func (v view) Guards() iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for r := range v.All() {
			if canBe(r) && !yield(candidate(r)) {
				return
			}
		}
	}
}

func (v view) Guard(id ident.RSAID) (Candidate, bool) {
	r, ok := v.Lookup(id)
	if !ok || !canBe(r) {
		return Candidate{}, false
	}
	return candidate(r), true
}

func candidate(r netdir.Relay) Candidate {
	addrs := make([]netip.AddrPort, 1, 2)
	addrs[0] = r.IPv4()
	if six, ok := r.IPv6(); ok {
		addrs = append(addrs, six)
	}
	return Candidate{
		ID: r.ID(), Nickname: r.Nickname(), Addrs: addrs,
		Weight: r.Directory().Weight(r, netdir.PosGuard), Complete: r.HasMicrodesc(),
	}
}
