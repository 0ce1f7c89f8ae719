package sidecar

import (
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/program"
)

// Status is what the sidecar does.
type Status struct {
	Node    bool          // the node answers at its JSON-RPC
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
	s.mu.Lock()
	same := status.equal(s.last)
	s.last = status
	s.mu.Unlock()
	if !same {
		s.cfg.Report(status)
	}
}

// Status returns what Run saw last. It is the zero value before Run has looked.
func (s *Sidecar) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Register adds what the sidecar does to a program's metrics.
func (s *Sidecar) Register(m *program.Metrics) {
	for _, g := range []struct {
		name, help string
		value      func(Status) int
	}{
		{"node_up", "Whether the node answers at its JSON-RPC: 1 or 0.", func(s Status) int { return oneIf(s.Node) }},
		{"onion_up", "Whether the onion is open: 1 or 0.", func(s Status) int { return oneIf(s.Onion != "") }},
		{"private", "Whether the sidecar runs with --only-onion, and the node shows nothing outside Tor: 1 or 0.", func(s Status) int { return oneIf(s.Private) }},
		{"leaks", "Ways in which the node shows itself outside Tor.", func(s Status) int { return len(s.Leaks) }},
		{"known_nodes", "Nodes that the node could connect to.", func(s Status) int { return s.Known }},
		{"forwards", "Onions that the node is told to connect to.", func(s Status) int { return s.Forwards }},
		{"inbound_connections", "Connections that the node has over the onion.", func(s Status) int { return s.Inbound }},
		{"contacts", "Other nodes that speak onr/1 with the sidecar.", func(s Status) int { return s.Contacts }},
	} {
		m.Gauge("chive_eth_sidecar_"+g.name, g.help, func() int64 { return int64(g.value(s.Status())) })
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (a Status) equal(b Status) bool {
	if len(a.Leaks) != len(b.Leaks) || (a.Record == nil) != (b.Record == nil) || a.Record != nil && a.Record.Seq() != b.Record.Seq() {
		return false
	}
	for i := range a.Leaks {
		if a.Leaks[i].What != b.Leaks[i].What { // its sockets come and go
			return false
		}
	}
	return a.Node == b.Node && a.Onion == b.Onion && a.Private == b.Private && a.Known == b.Known && a.Nodes == b.Nodes && a.Forwards == b.Forwards &&
		a.Inbound == b.Inbound && a.Contacts == b.Contacts && a.Problem == b.Problem
}
