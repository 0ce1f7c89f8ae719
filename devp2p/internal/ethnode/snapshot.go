package ethnode

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/chivenet/chive/program"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// A Head is the newest block that is known.
type Head struct {
	Number uint64      `json:"number"`
	Hash   common.Hash `json:"hash"`
	Time   time.Time   `json:"time"`
}

// A PeerStatus is a peer as status shows it.
type PeerStatus struct {
	ID       enode.ID  `json:"id"`
	Version  uint      `json:"eth"`
	Relay    bool      `json:"relay"`
	Onion    bool      `json:"onion"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since"`
	Earliest uint64    `json:"earliest"`
	Latest   uint64    `json:"latest"`
	// Classes says for each class of requests what was measured: text for people.
	Classes map[string]string `json:"classes"`
}

// Status is what a node does.
type Status struct {
	Network  uint64            `json:"network"`
	Genesis  common.Hash       `json:"genesis"`
	Learnt   bool              `json:"learnt"` // the chain is known from peers only
	Head     *Head             `json:"head,omitempty"`
	Pool     pool.Stats        `json:"pool"`
	Accepted uint64            `json:"accepted"` // transactions
	Refused  uint64            `json:"refused"`
	Dropped  uint64            `json:"dropped"` // messages beyond the rates
	Passed   map[string]uint64 `json:"passed"`  // requests that were answered, by class
	Empty    map[string]uint64 `json:"empty"`   // requests to which no peer had an answer
	Faults   map[Event]uint64  `json:"faults"`
	Messages map[string]uint64 `json:"messages"`
	Peers    []PeerStatus      `json:"peers"`
	Rules    []ClassStatus     `json:"rules"` // which class goes by which peers
}

// Status returns what the node does now.
func (n *Node) Status() Status {
	s := Status{
		Pool:     n.pool.Stats(),
		Accepted: n.counts.accepted.Load(), Refused: n.counts.refused.Load(), Dropped: n.counts.dropped.Load(),
		Passed: make(map[string]uint64), Empty: make(map[string]uint64), Rules: n.rulesStatus(),
	}
	if c := n.chain.Load(); c != nil {
		s.Network, s.Genesis, s.Learnt = c.Network, c.Genesis, c.learnt()
	}
	if h := n.newest(); h != nil {
		s.Head = &Head{h.Number.Uint64(), h.Hash(), time.Unix(int64(h.Time), 0).UTC()}
	}
	n.counts.mu.Lock()
	s.Faults, s.Messages = maps.Clone(n.counts.faults), maps.Clone(n.counts.messages)
	for i, c := range classes {
		if c.parse != nil {
			s.Passed[c.name], s.Empty[c.name] = n.counts.passed[i], n.counts.empty[i]
		}
	}
	n.counts.mu.Unlock()
	for _, p := range n.list() {
		r, way := p.blocks.Load(), n.route(p)
		s.Peers = append(s.Peers, PeerStatus{
			ID: p.id, Version: p.version, Relay: p.relay, Onion: way.Onion, Why: way.Why, Since: p.since,
			Earliest: r.EarliestBlock, Latest: r.LatestBlock, Classes: p.measured.text(),
		})
	}
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.ID[:], b.ID[:]))
	})
	return s
}

// text says in words what was measured.
func (m *measured) text() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]string)
	for i, c := range classes {
		if m.latency[i] == 0 {
			continue
		}
		out[c.name] = fmt.Sprintf("%v an answer", m.latency[i].Round(time.Millisecond))
		if c.bulk && m.rate > 0 {
			out[c.name] += fmt.Sprintf(", %.0f kB/s", m.rate/1000)
		}
	}
	return out
}

// Register adds the node's counters to a program's metrics.
func (n *Node) Register(m *program.Metrics) {
	m.Gauge("chive_eth_peers", "Peers that speak the eth protocol.", func() int64 { return int64(n.PeerCount()) })
	m.Gauge("chive_eth_pool_transactions", "Transactions in the pool.", func() int64 { return int64(n.pool.Stats().Count) })
	m.Gauge("chive_eth_pool_bytes", "Bytes of transactions in the pool.", func() int64 { return int64(n.pool.Stats().Bytes) })
	m.Counter("chive_eth_transactions_mined_total", "Transactions that left the pool because they were in a block.", func() uint64 { return n.pool.Stats().Mined })
	m.Counter("chive_eth_transactions_accepted_total", "Transactions that came into the pool.", n.counts.accepted.Load)
	m.Counter("chive_eth_transactions_refused_total", "Transactions that failed their checks or had no room.", n.counts.refused.Load)
	m.Counter("chive_eth_messages_dropped_total", "Messages that were dropped because of a rate or a bound.", n.counts.dropped.Load)
	for i, c := range classes {
		if c.parse == nil {
			continue
		}
		value := func(of *[len(classes)]uint64) func() uint64 {
			return func() uint64 {
				n.counts.mu.Lock()
				defer n.counts.mu.Unlock()
				return of[i]
			}
		}
		label := "{class=\"" + strings.ReplaceAll(c.name, " ", "_") + "\"}"
		m.Counter("chive_eth_requests_passed_total"+label, "Requests that were passed on and answered.", value(&n.counts.passed))
		m.Counter("chive_eth_requests_unanswered_total"+label, "Requests to which no peer had an answer.", value(&n.counts.empty))
	}
}

// The methods below serve the JSON-RPC server.

// Chain returns the chain, or nil if it is not decided yet.
func (n *Node) Chain() *Chain { return n.chain.Load() }

// HeadNumber returns the number of the newest block, if one is known.
func (n *Node) HeadNumber() (uint64, bool) {
	h := n.newest()
	if h == nil {
		return 0, false
	}
	return h.Number.Uint64(), true
}

// PeerCount returns the number of peers.
func (n *Node) PeerCount() int { return len(n.list()) }

// Check reports what is wrong with a transaction of the user.
func (n *Node) Check(tx *types.Transaction) error {
	chain := n.chain.Load()
	if chain == nil {
		return errors.New("the chain is not known yet: too few peers have told it")
	}
	return n.check(chain, tx)
}
