package netdoc

// VoteEntries reads the relays of a vote one after the other.
type VoteEntries struct {
	list []RouterStatus // of a vote that keeps them
	s    *Scanner
	in   *Interner
	rs   RouterStatus
	r    *Item // the "r" line of the next relay; nil: there is none
}

// Entries returns a reader of the vote's relays. The vote must be from one of this package's functions, or have Routers.
func (v *Vote) Entries(in *Interner) *VoteEntries {
	if len(v.Routers) > 0 {
		return &VoteEntries{list: v.Routers}
	}
	e := &VoteEntries{s: NewScanner("vote", v.Text[v.relaysFrom:v.relaysTo]), in: in}
	e.r, _ = e.s.Next()
	return e
}

// Next returns the next relay, which is valid until the next call, and nil after the last one. An error is not possible as
// long as nobody changes the text.
func (e *VoteEntries) Next() (*RouterStatus, error) {
	if e.s == nil {
		if len(e.list) == 0 {
			return nil, nil
		}
		rs := &e.list[0]
		e.list = e.list[1:]
		return rs, nil
	}
	if e.r == nil {
		return nil, e.s.Err()
	}
	e.rs = e.rs.again(false)
	if err := e.rs.parseR(e.r.Args, FlavorNS); err != nil {
		return nil, e.s.Fail("%w", err)
	}
	for {
		it, ok := e.s.Next()
		if !ok || it.Is("r") {
			if e.r = it; !ok {
				e.r = nil
			}
			return &e.rs, e.s.Err()
		}
		if err := e.rs.parseItem(it, FlavorNS, e.in); err != nil {
			return nil, e.s.Fail("%w", err)
		}
	}
}

// again returns an empty entry to read the next relay into. If nobody keeps this one, the next has its lists.
func (rs *RouterStatus) again(kept bool) RouterStatus {
	if kept {
		return RouterStatus{}
	}
	return RouterStatus{ORAddrs: rs.ORAddrs[:0], Microdescs: rs.Microdescs[:0]}
}
