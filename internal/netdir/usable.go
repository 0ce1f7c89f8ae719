package netdir

// Usability says how much of the network can be used with the microdescriptors
// that are present (path-spec, "when we build").
type Usability struct {
	Have, Want          int     // microdescriptors
	Guard, Middle, Exit float64 // weighted fractions of each position's relays, 0 to 1
	Path                float64 // the product: the fraction of usable paths
	HasExits            bool    // without exits in the consensus, Exit is 1 and only internal circuits work
}

// Usability computes the usability of the directory.
func (d *Directory) Usability() Usability {
	var u Usability
	var guard, middle, exit fraction
	for i := range d.relays {
		r := &d.relays[i]
		if !r.flags.Has(FlagRunning | FlagValid) {
			continue
		}
		have := d.mds[i] != nil
		u.Want++
		if have {
			u.Have++
		}
		middle.add(d.weight(i, PosMiddle), have)
		if r.flags.Has(FlagGuard) {
			guard.add(d.weight(i, PosGuard), have)
		}
		if r.flags.Has(FlagExit) && !r.flags.Has(FlagBadExit) {
			u.HasExits = true
			exit.add(d.weight(i, PosExit), have)
		}
	}
	u.Guard, u.Middle, u.Exit = guard.value(), middle.value(), 1
	if u.HasExits {
		u.Exit = exit.value()
	}
	u.Path = u.Guard * u.Middle * u.Exit
	return u
}

// fraction sums weights, or counts relays if all weights are zero.
type fraction struct {
	have, all float64
	nHave, n  int
}

func (f *fraction) add(w uint64, have bool) {
	f.all += float64(w)
	f.n++
	if have {
		f.have += float64(w)
		f.nHave++
	}
}

func (f *fraction) value() float64 {
	switch {
	case f.n == 0:
		return 0
	case f.all == 0:
		return float64(f.nHave) / float64(f.n)
	}
	return f.have / f.all
}

// Enough reports whether circuits may be built: whether as many of the paths are usable
// as the consensus says. bridged says that paths begin at a bridge that works, so that it does not matter which
// guards are known (compute_frac_paths_available in C tor).
func (d *Directory) Enough(bridged bool) bool {
	u := d.Usability()
	usable := u.Path
	if bridged {
		usable = u.Middle * u.Exit
	}
	return usable >= float64(d.Param("min_paths_for_circs_pct", 60, 25, 95))/100
}
