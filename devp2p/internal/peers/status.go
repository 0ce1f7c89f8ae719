package peers

import (
	"bytes"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// State is what a node is for this one.
type State string

// The states.
const (
	Connected State = "connected"
	Dialing   State = "dialing"
	Waiting   State = "waiting" // it may be dialled at Next
	Candidate State = "candidate"
	Banned    State = "banned" // until Next
)

// PeerStatus is a node that is connected or known.
type PeerStatus struct {
	ID       enode.ID       `json:"id"`
	State    State          `json:"state"`
	Name     string         `json:"name,omitempty"` // as the peer calls itself
	Caps     []string       `json:"caps,omitempty"`
	Inbound  bool           `json:"inbound"`
	Static   bool           `json:"static"`
	Trusted  bool           `json:"trusted"`
	Source   string         `json:"source,omitempty"`
	Onion    bool           `json:"onion"`         // it is, was, or would be reached by its onion
	Why      string         `json:"why,omitempty"` // in words
	Since    time.Time      `json:"since,omitzero"`
	Score    float64        `json:"score"`
	Failures int            `json:"failures"`
	Next     time.Time      `json:"next,omitzero"`
	Problem  string         `json:"problem,omitempty"` // of the last dial or connection
	Onions   devp2p.Measure `json:"measured_onion"`
	Addrs    devp2p.Measure `json:"measured_address"`
}

// RouteOf says how a connected peer is reached; false: it is not connected.
func (m *Manager) RouteOf(id enode.ID) (devp2p.Route, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.live[id]; c != nil {
		return c.route, true
	}
	return devp2p.Route{}, false
}

// Status returns the nodes that are connected or known, the connected ones first.
func (m *Manager) Status() []PeerStatus {
	m.mu.Lock()
	srv := m.srv
	m.mu.Unlock()
	peers := map[enode.ID]*p2p.Peer{}
	if srv != nil {
		for _, p := range srv.Peers() {
			peers[p.ID()] = p
		}
	}
	now := time.Now()
	var out []PeerStatus
	var nodes []*enode.Node // nil for those without an entry; parallel to out
	m.mu.Lock()
	for id, c := range m.live {
		s := PeerStatus{ID: id, State: Connected, Inbound: c.inbound, Onion: c.route.Onion, Why: c.route.Why, Since: c.since, Score: c.score.now(now, scoreHalf)}
		if p := peers[id]; p != nil {
			s.Name, s.Trusted = p.Name(), p.Trusted()
			for _, cap := range p.Caps() {
				s.Caps = append(s.Caps, cap.String())
			}
		}
		if e := m.table[id]; e != nil {
			s.Static, s.Source, s.Score = e.static, e.source, e.score.now(now, scoreHalf)
		}
		out, nodes = append(out, s), append(nodes, nil)
	}
	for id, e := range m.table {
		if m.live[id] != nil {
			continue
		}
		s := PeerStatus{ID: id, State: Candidate, Static: e.static, Source: e.source, Score: e.score.now(now, scoreHalf), Failures: e.failures,
			Problem: e.lastErr, Onion: e.route.Onion, Why: e.route.Why}
		if until := m.banned.has(id, now); !until.IsZero() {
			s.State, s.Next = Banned, until
		} else if e.dialing {
			s.State = Dialing
		} else if e.next.After(now) {
			s.State, s.Next = Waiting, e.next
		}
		out, nodes = append(out, s), append(nodes, e.node)
	}
	m.mu.Unlock()
	for i, n := range nodes {
		if n != nil && out[i].Why == "" {
			if r, err := m.cfg.Transport.Route(n); err == nil {
				out[i].Onion, out[i].Why = r.Onion, r.Why
			}
		}
		out[i].Onions, out[i].Addrs = m.cfg.Transport.Measured(out[i].ID, true), m.cfg.Transport.Measured(out[i].ID, false)
	}
	slices.SortFunc(out, func(a, b PeerStatus) int {
		if (a.State == Connected) != (b.State == Connected) {
			if a.State == Connected {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	return out
}
