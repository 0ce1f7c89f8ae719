package client

import (
	"math"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
)

// setsAhead returns how many conflux sets shall be ready, and how many there may be.
func (c *Client) setsAhead() (ready, most int) {
	n := c.sets.Load()
	if n == nil || n.legs == 0 || c.cfg.Conflux == Off || c.cfg.Congestion == Off || c.cfg.Conflux == Auto && !c.confluxEnabled() {
		return 0, 0
	}
	return n.ready, n.most
}

// setNumbers are a consensus's numbers of sets, of legs that a set shall have, and of legs that may be launched for it.
type setNumbers struct{ ready, most, legs, launches int }

func setNumbersOf(d *netdir.Directory) *setNumbers {
	num := func(name string, usual int32) int { return int(d.Param(name, usual, 0, math.MaxUint8)) }
	legs := num("cfx_num_legs_set", 2)
	return &setNumbers{setsReady(d, confluxShare(d)), num("cfx_max_linked_set", 10), legs, legs + num("cfx_max_unlinked_leg_retry", 3)}
}

// wholeShare is a share of everything: the consensus counts in hundredths of a percent.
const wholeShare = 10000

// setsReady returns how many sets shall be ready when this share of the exits can have them: one where it is below what the
// consensus calls low, as for C tor (conflux_params_get_max_prebuilt), so that few exits do not get all of them.
func setsReady(d *netdir.Directory, share int) int {
	switch {
	case share == 0:
		return 0
	case share < int(d.Param("cfx_low_exit_threshold", 6000, 0, wholeShare)):
		return 1
	}
	return int(d.Param("cfx_max_prebuilt_set", 3, 0, math.MaxUint8))
}

// confluxShare returns which share of the exits can have conflux sets; not zero if any can.
func confluxShare(d *netdir.Directory) int {
	all, able := 0, 0
	for r := range d.All() {
		if !r.Has(netdir.FlagExit) || r.Has(netdir.FlagBadExit) {
			continue
		}
		all++
		if path.Conflux.Has(r) {
			able++
		}
	}
	if able == 0 {
		return 0
	}
	return max(1, able*wholeShare/all)
}
