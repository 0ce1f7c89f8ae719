package sidecar

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/onr"
)

// The bounds of the list of candidates.
const (
	maxCandidates = 1024
	maxPerClaim   = 4                 // onions that are said to lead to one node
	maxPerSource  = maxCandidates / 4 // nodes that one peer told of
	retryMin      = 30 * time.Second
	retryMax      = 30 * time.Minute
)

// The retries of a node that was connected a moment ago. Most of these come back soon: their
// sidecar began anew, or a circuit ended.
const (
	retryLost = 2 * time.Second
	lostFor   = 2 * time.Minute // after that it is away, like others
)

// claim says that a node answers at an onion. Anybody can say so; the handshake shows it.
type claim struct {
	id    enode.ID
	onion string // and its port
}

// candidate is a node that the node behind this sidecar may connect to.
type candidate struct {
	claim
	node     *enode.Node // its latest record; guarded by candidates.mu
	source   string      // who told of it first
	static   bool
	failures int // since it last worked
	next     time.Time
	recent   time.Time // when the node last had a connection to it
	used     bool      // a forward leads to it
}

// candidates are the nodes that the sidecar knows and the node may connect to.
type candidates struct {
	mu   sync.Mutex
	byID map[claim]*candidate // guarded by mu
}

// ethNode returns the node to which an Ethereum node can connect at a record's onion: the
// one behind a sidecar, or the record's own if it says by "eth" that it speaks the protocol.
func ethNode(n *enode.Node) (*enode.Node, error) {
	behind, ok, err := onr.Behind(n)
	if err != nil || ok {
		return behind, err
	}
	var eth rlp.RawValue
	if err := n.Load(enr.WithEntry("eth", &eth)); err != nil {
		return nil, errors.New("sidecar: the node does not speak eth")
	}
	return n, nil
}

// add notes a node of ethNode. A static one is never removed.
func (cs *candidates) add(n *enode.Node, source string, static bool) error {
	onion, port, err := devp2p.OnionOf(n)
	if err != nil {
		return err
	}
	if n.Pubkey() == nil {
		return errors.New("sidecar: a node without a public key")
	}
	key := claim{n.ID(), net.JoinHostPort(onion, strconv.Itoa(port))}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byID[key]; c != nil {
		c.node, c.static = n, c.static || static
		return nil
	}
	same, told := 0, 0
	for k, c := range cs.byID {
		if k.id == key.id {
			same++
		}
		if c.source == source {
			told++
		}
	}
	if !static && same >= maxPerClaim && !cs.makeRoom(func(c *candidate) bool { return c.id == key.id }) {
		return errors.New("sidecar: too many onions are said to lead to one node")
	}
	if !static && told >= maxPerSource {
		return errors.New("sidecar: one peer told of too many nodes")
	}
	if len(cs.byID) >= maxCandidates && !cs.makeRoom(func(*candidate) bool { return true }) && !static {
		return errors.New("sidecar: the list of nodes is full")
	}
	if cs.byID == nil {
		cs.byID = map[claim]*candidate{}
	}
	cs.byID[key] = &candidate{claim: key, node: n, source: source, static: static}
	return nil
}

// makeRoom removes the candidate with the most failures among some, if one of them failed.
// mu is held.
func (cs *candidates) makeRoom(among func(*candidate) bool) bool {
	var worst *candidate
	for _, c := range cs.byID {
		if among(c) && !c.static && !c.used && c.failures > 0 && (worst == nil || c.failures > worst.failures) {
			worst = c
		}
	}
	if worst != nil {
		delete(cs.byID, worst.claim)
	}
	return worst != nil
}

// take returns up to n candidates to connect to, and marks them as used. Static ones come
// first, then those with the fewest failures; skip are nodes that need no forward.
func (cs *candidates) take(n int, skip map[enode.ID]bool, now time.Time) []*candidate {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	busy := map[enode.ID]bool{} // one forward for each node
	var free []*candidate
	for _, c := range cs.byID {
		switch {
		case c.used:
			busy[c.id] = true
		case !skip[c.id] && !now.Before(c.next):
			free = append(free, c)
		}
	}
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	slices.SortStableFunc(free, func(a, b *candidate) int {
		if a.static != b.static {
			if a.static {
				return -1
			}
			return 1
		}
		return a.failures - b.failures
	})
	var out []*candidate
	for _, c := range free {
		if len(out) < n && !busy[c.id] {
			busy[c.id], c.used = true, true
			out = append(out, c)
		}
	}
	return out
}

// connected notes which nodes have a connection now. Of the onions that are said to lead to one
// node, it is the one that is in use, or any of them if the node came by itself.
func (cs *candidates) connected(ids map[enode.ID]bool, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	used := map[enode.ID]bool{}
	for _, c := range cs.byID {
		if c.used {
			used[c.id] = true
		}
	}
	for _, c := range cs.byID {
		if ids[c.id] && (c.used || !used[c.id]) {
			c.recent = now
		}
	}
}

// lost reports whether a node that is not connected, and that nobody connects to now, was
// connected a moment ago.
func (cs *candidates) lost(connected map[enode.ID]bool, now time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byID {
		if !c.used && !connected[c.id] && now.Sub(c.recent) < lostFor {
			return true
		}
	}
	return false
}

// record returns a candidate's latest record.
func (cs *candidates) record(c *candidate) *enode.Node {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.node
}

// done takes a candidate back. If it did not work, it has to wait before the next try.
func (cs *candidates) done(c *candidate, worked bool, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.used = false
	if worked {
		c.failures, c.next = 0, time.Time{}
		return
	}
	if now.Sub(c.recent) < lostFor {
		c.next = now.Add(retryLost)
		return
	}
	c.next = now.Add(min(retryMin<<min(c.failures, 10), retryMax))
	c.failures++
}

// len is how many candidates there are.
func (cs *candidates) len() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.byID)
}
