package channel

import "github.com/chivenet/chive/internal/ident"

// LinkUse is what one link has carried since it was opened, and what waits for it.
type LinkUse struct {
	Peer    ident.RSAID // zero: a client
	In, Out uint64      // bytes of cells
	Queued  int         // cells
}

// Use returns the use of every open link, for a view of a network.
func (m *Manager) Use() []LinkUse {
	all := m.Channels()
	out := make([]LinkUse, len(all))
	for i, ch := range all {
		out[i] = LinkUse{Peer: ch.Peer().RSA, In: ch.in.Load(), Out: ch.out.Load(), Queued: ch.Queued()}
	}
	return out
}
