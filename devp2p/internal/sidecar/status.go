package sidecar

import (
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/peers"
)

// Status is what the sidecar does.
type Status struct {
	Node    bool          // the node answers at its IPC socket
	Leaks   []Leak        // how the node shows itself outside Tor
	Onion   devp2p.Onion3 // that others can reach; empty: none yet
	Record  *enode.Node   // of the sidecar, with the onion; nil: none yet
	Private bool          // the sidecar was started with OnlyOnion, and nothing leaks
	// Known is how many nodes the node could connect to, Forwards how many it is told to,
	// Inbound how many connections it has over the onion, and Contacts how many other
	// nodes speak onr/1 with the sidecar.
	Known, Forwards, Inbound, Contacts int
	Nodes                              int    // that the sidecar itself could ask for others
	Problem                            string // why there is no onion, if it is not the leaks
}

// report tells the caller what changed.
func (s *Sidecar) report(st *state, status Status) {
	status.Known, status.Forwards = s.known.len(), len(st.forwards)
	if ss := st.session; ss != nil {
		status.Inbound = ss.front.open()
		all := ss.manager.Status()
		status.Nodes = len(all)
		for _, p := range all {
			if p.State == peers.Connected {
				status.Contacts++
			}
		}
		if n := ss.manager.Self(); n != nil && n.Load(&status.Onion) == nil {
			status.Record = n
		}
	}
	if !status.equal(s.last) {
		s.last = status
		s.cfg.Report(status)
	}
}

func (a Status) equal(b Status) bool {
	if len(a.Leaks) != len(b.Leaks) || (a.Record == nil) != (b.Record == nil) || a.Record != nil && a.Record.Seq() != b.Record.Seq() {
		return false
	}
	for i := range a.Leaks {
		if a.Leaks[i] != b.Leaks[i] {
			return false
		}
	}
	return a.Node == b.Node && a.Onion == b.Onion && a.Private == b.Private && a.Known == b.Known && a.Nodes == b.Nodes && a.Forwards == b.Forwards &&
		a.Inbound == b.Inbound && a.Contacts == b.Contacts && a.Problem == b.Problem
}
