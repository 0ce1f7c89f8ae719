package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

const (
	maxNodes    = 2048 // nodes that are known
	maxPerOnion = 8    // nodes that claim the same onion
)

// entry is a node that is known. All fields are guarded by Manager.mu.
type entry struct {
	node   *enode.Node
	signed bool   // its record has a signature
	onion  string // its onion; empty: none
	source string // where its record came from
	static bool

	score     score
	failures  int       // dials that failed since the last good connection
	next      time.Time // not dialled before
	connected time.Time // when it last was; zero: never
	dialing   bool
	lastErr   string
	route     devp2p.Route // of the last dial
}

// signed reports whether a node's record has a signature, so that others can check it.
func signed(n *enode.Node) bool {
	return n.Record().VerifySignature(enode.ValidSchemes) == nil
}

// Add gives the manager a node that it may dial. Of several records of one node, the
// one with the highest sequence number counts. source says where the record comes from; no
// source can fill the table alone. The error says why a node is refused: policy
// only-onion, for example, takes no nodes without an onion.
func (m *Manager) Add(n *enode.Node, source string) error {
	return m.add(n, source, false)
}

func (m *Manager) add(n *enode.Node, source string, static bool) error {
	if n.ID() == m.id {
		return errors.New("peers: the node is this one")
	}
	if _, err := m.cfg.Transport.Route(n); err != nil {
		return err
	}
	onion, _, err := devp2p.OnionOf(n)
	if err != nil && !errors.Is(err, devp2p.ErrNoOnion) {
		return fmt.Errorf("peers: %w", err)
	}
	good := signed(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.table[n.ID()]
	if e != nil {
		e.static = e.static || static
		// A record without a signature could be anybody's. It takes the place of another one
		// of this kind only, and only if the node does not answer there.
		failed := e.failures > 0 && !e.static && !e.dialing && m.live[n.ID()] == nil
		if !static && (good && e.signed && n.Seq() <= e.node.Seq() || !good && (e.signed || !failed)) {
			return nil
		}
	}
	if onion != "" && (e == nil || e.onion != onion) {
		if m.onions[onion] >= maxPerOnion && !static && !m.makeRoomAt(onion) {
			return fmt.Errorf("peers: %d nodes have this onion already", maxPerOnion)
		}
	}
	if e == nil {
		if len(m.table) >= maxNodes && !m.makeRoom() {
			return errors.New("peers: the table of nodes is full")
		}
		e = &entry{source: source, static: static}
		m.table[n.ID()] = e
	}
	if e.onion != onion {
		m.forgetOnion(e.onion)
		if onion != "" {
			m.onions[onion]++
		}
		e.onion, e.failures, e.next = onion, 0, time.Time{} // a new place: the old failures say nothing
	}
	e.node, e.signed = n, good
	if m.live[n.ID()] != nil {
		e.connected = time.Now()
	}
	m.dirty = true
	m.poke()
	return nil
}

func (m *Manager) forgetOnion(onion string) {
	if onion == "" {
		return
	}
	if m.onions[onion]--; m.onions[onion] <= 0 {
		delete(m.onions, onion)
	}
}

// makeRoom removes a node from a full table: of the source with the most nodes that were
// never connected, the one with the most failures. If there is none, the one that was not
// connected for the longest time. mu is held.
func (m *Manager) makeRoom() bool {
	perSource := map[string]int{}
	for _, e := range m.table {
		if e.connected.IsZero() {
			perSource[e.source]++
		}
	}
	var victim enode.ID
	var worst *entry
	better := func(a, b *entry) bool { // a goes before b
		an, bn := a.connected.IsZero(), b.connected.IsZero()
		switch {
		case an != bn:
			return an
		case !an:
			return a.connected.Before(b.connected)
		case perSource[a.source] != perSource[b.source]:
			return perSource[a.source] > perSource[b.source]
		}
		return a.failures > b.failures
	}
	for id, e := range m.table {
		if e.static || e.dialing || m.live[id] != nil {
			continue
		}
		if worst == nil || better(e, worst) {
			victim, worst = id, e
		}
	}
	if worst == nil {
		return false
	}
	m.forgetOnion(worst.onion)
	delete(m.table, victim)
	return true
}

// makeRoomAt removes the node of an onion that failed most often: so those that falsely
// claim an onion do not keep its nodes out. mu is held.
func (m *Manager) makeRoomAt(onion string) bool {
	var victim enode.ID
	var worst *entry
	for id, e := range m.table {
		if e.onion == onion && e.failures > 0 && !e.static && !e.dialing && m.live[id] == nil && (worst == nil || e.failures > worst.failures) {
			victim, worst = id, e
		}
	}
	if worst == nil {
		return false
	}
	m.forgetOnion(onion)
	delete(m.table, victim)
	return true
}

// Known returns records that may be passed on, in random order: those with a signature
// whose nodes are connected, or were in the last 30 days.
func (m *Manager) Known(limit int) []*enode.Node {
	now := time.Now()
	var out []*enode.Node
	m.mu.Lock()
	for id, e := range m.table {
		reached := m.live[id] != nil || !e.connected.IsZero() && now.Sub(e.connected) < scoreOld
		if reached && e.signed && m.banned.has(id, now).IsZero() {
			out = append(out, e.node)
		}
	}
	m.mu.Unlock()
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(limit, len(out))]
}
