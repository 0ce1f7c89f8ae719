package authority

import (
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
)

// use counts what the ORPort carries. The DirPort is not counted.
type use struct {
	links    channel.Stats
	circuits circuit.ServerStats
}

// Use is what an authority's ORPort has carried since the start, and what it has now.
type Use struct {
	CellsIn, CellsOut, BytesIn, BytesOut uint64

	Circuits int64
	Links    []channel.LinkUse
}

// Use returns what the ORPort carries, for the laboratory.
func (a *Authority) Use() Use {
	s := &a.use
	out := Use{CellsIn: s.links.CellsIn.Load(), CellsOut: s.links.CellsOut.Load(), BytesIn: s.links.BytesIn.Load(), BytesOut: s.links.BytesOut.Load(),
		Circuits: s.circuits.Circuits.Load()}
	if m := a.channels.Load(); m != nil {
		out.Links = m.Use()
	}
	return out
}

// OfNode returns the authority of a *lab.Node that runs in this process, or nil. Package lab sets it at its start: it is
// above this package, and an exported method of its Node would be public.
var OfNode func(node any) *Authority
