package authority

import "github.com/chivenet/chive/internal/netdoc"

// keepMicrodescsLocked drops microdescriptors that neither a vote nor the
// consensus names.
func (a *Authority) keepMicrodescsLocked() {
	want, ok := a.listedMicrodescs()
	if !ok {
		return
	}
	for _, r := range a.relays.byRSA {
		if r.made != nil {
			for _, m := range r.made.micro {
				want[m.digest] = true
			}
		}
	}
	a.docs.KeepMicrodescs(func(d [32]byte) bool { return want[d] })
}

// listedMicrodescs returns the digests of the current consensus, which may be older than the round. None, and
// true, if there is no consensus.
func (a *Authority) listedMicrodescs() (map[[32]byte]bool, bool) {
	want := map[[32]byte]bool{}
	c := a.docs.Consensus(netdoc.FlavorMicrodesc)
	if c == nil {
		return want, true
	}
	_, err := netdoc.ParseConsensus(c.Doc.Bytes(), nil, func(rs *netdoc.RouterStatus) error {
		want[rs.Microdesc] = true
		return nil
	})
	return want, err == nil // an error is not possible: it was parsed before
}

// makeListedMicrodescsLocked makes the microdescriptors of the current consensus from the relays' descriptors, which are what
// the state has: else an authority that was started again would serve none before it has voted.
func (a *Authority) makeListedMicrodescsLocked() error {
	want, ok := a.listedMicrodescs()
	if !ok || len(want) == 0 {
		return nil
	}
	for _, r := range a.relays.byRSA {
		for _, m := range r.madeOf(a.cfg.Methods).micro {
			if !want[m.digest] {
				continue
			}
			if err := a.docs.AddMicrodesc(m.digest, m.text); err != nil {
				return err
			}
		}
	}
	return nil
}
