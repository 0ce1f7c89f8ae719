package authority

import (
	"slices"

	"github.com/chivenet/chive/internal/netdoc"
)

// allFlags are the flags that an entry can have, in the order of their bits.
var allFlags = []netdoc.Flags{
	netdoc.FlagAuthority, netdoc.FlagBadExit, netdoc.FlagExit, netdoc.FlagFast, netdoc.FlagGuard, netdoc.FlagHSDir,
	netdoc.FlagMiddleOnly, netdoc.FlagNoEdConsensus, netdoc.FlagRunning, netdoc.FlagStable, netdoc.FlagStaleDesc,
	netdoc.FlagSybil, netdoc.FlagV2Dir, netdoc.FlagValid,
}

// flagVoters says which authorities vote on which flag.
type flagVoters struct {
	known []netdoc.Flags       // by voter
	count map[netdoc.Flags]int // how many voters vote on it
}

func (c *computation) flagVoters() flagVoters {
	f := flagVoters{count: map[netdoc.Flags]int{}}
	for _, v := range c.votes {
		var known netdoc.Flags
		for _, flag := range allFlags {
			if slices.Contains(v.KnownFlags, flag.String()) {
				known |= flag
				f.count[flag]++
			}
		}
		f.known = append(f.known, known)
	}
	return f
}

// choose returns each flag that more than half of the authorities that vote on it
// assign, and whether the consensus lists the relay.
func (f flagVoters) choose(list []opinion, authorities int, knownFlags []string) (out netdoc.Flags, listed bool) {
	counts := make([]int, len(allFlags))
	reflects := 0
	for _, o := range list {
		for i, flag := range allFlags {
			if o.Flags&f.known[o.voter]&flag != 0 {
				counts[i]++
			}
		}
		if o.reflects {
			reflects++
		}
	}
	for i, flag := range allFlags {
		if n := f.count[flag]; n > 0 && counts[i] > n/2 {
			out |= flag
		}
	}
	out &^= netdoc.FlagNoEdConsensus
	if reflects <= authorities/2 {
		out |= netdoc.FlagNoEdConsensus
	}
	if out.Has(netdoc.FlagMiddleOnly) {
		out &^= netdoc.FlagExit | netdoc.FlagV2Dir | netdoc.FlagGuard | netdoc.FlagHSDir
		if slices.Contains(knownFlags, "BadExit") {
			out |= netdoc.FlagBadExit
		}
	}
	return out, out.Has(netdoc.FlagRunning | netdoc.FlagValid)
}
