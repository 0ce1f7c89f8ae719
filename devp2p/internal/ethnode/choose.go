package ethnode

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/chivenet/chive/devp2p"
	"github.com/ethereum/go-ethereum/common"
)

const (
	// bulkBytes is the size from which an answer measures throughput, and below which it
	// measures latency. It is the size of a bulk answer, too, as long as none has come.
	bulkBytes = 32 << 10
	// explore is how seldom a peer is chosen at random, so that each is measured again: one
	// time in this many.
	explore = 16
	// unmeasured is the latency that a peer is supposed to have before its first answer. It
	// is small, so that new peers are tried soon.
	unmeasured = 50 * time.Millisecond
)

// measured is what a peer's answers have shown: moving averages, in which the newest
// counts a quarter.
type measured struct {
	mu      sync.Mutex
	latency [len(classes)]time.Duration // until an answer, by class
	size    [len(classes)]float64       // of an answer, in bytes
	rate    float64                     // bytes a second, from answers of bulkBytes and more
}

func average(old, sample float64) float64 {
	if old == 0 {
		return sample
	}
	return old + (sample-old)/4
}

func (c *class) index() int {
	for i, x := range classes {
		if x == c {
			return i
		}
	}
	panic("ethnode: a class that is not in the table")
}

// note notes how long an answer took, and its size: 0 if it did not come.
func (m *measured) note(c *class, d time.Duration, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := c.index()
	m.latency[i] = time.Duration(average(float64(m.latency[i]), float64(d)))
	if size > 0 {
		m.size[i] = average(m.size[i], float64(size))
	}
	if size >= bulkBytes && d > 0 {
		m.rate = average(m.rate, float64(size)/d.Seconds())
	}
}

// cost estimates the time that an answer of a class takes.
func (m *measured) cost(c *class) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := c.index()
	d := m.latency[i]
	if d == 0 {
		d = max(m.latency[headers.index()], unmeasured)
	}
	if c.bulk && m.rate > 0 && m.latency[i] == 0 {
		d += time.Duration(max(m.size[i], bulkBytes) / m.rate * float64(time.Second))
	}
	return d
}

// choose returns the peer that a query is passed on to: one that can have the answer and that
// the rules allow, and
// by the policy an onion before an address, then the one that answers this class fastest.
// A query of a relay goes to full nodes only, and one of a full node to relays only if
// there is no full node: so no query runs in a circle.
func (n *Node) choose(q *query, from *peer, tried map[*peer]bool) *peer {
	number, numbered := n.numberOf(q)
	var best *peer
	var bestRank rank
	random := rand.IntN(explore) == 0
	for _, p := range n.list() {
		if tried[p] || p.version < q.class.since || p.relay && from.relay || p.busy() || !n.allows(q.class.rule(), p) {
			continue
		}
		if numbered && !covers(p, q, number) {
			continue
		}
		if q.first > 0 && p.version < 70 {
			continue // it could not start with that receipt
		}
		r := rank{relay: p.relay, clear: n.config.Policy == devp2p.PreferOnion && !n.route(p).Onion, cost: p.measured.cost(q.class)}
		if random {
			r.cost = time.Duration(rand.Int64N(int64(time.Second)))
		}
		if best == nil || r.before(bestRank) {
			best, bestRank = p, r
		}
	}
	return best
}

// rank orders peers for a query.
type rank struct {
	relay, clear bool
	cost         time.Duration
}

func (r rank) before(o rank) bool {
	switch {
	case r.relay != o.relay:
		return o.relay
	case r.clear != o.clear:
		return o.clear
	}
	return r.cost < o.cost
}

func (p *peer) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked) >= maxAsked/2
}

// numberOf returns the number of a query's first block, if it is known.
func (n *Node) numberOf(q *query) (uint64, bool) {
	h := common.Hash{}
	switch {
	case q.headers != nil && q.headers.Origin.Hash == h:
		return q.headers.Origin.Number, true
	case q.headers != nil:
		h = q.headers.Origin.Hash
	default:
		h = q.hashes[0]
	}
	if r := n.headers.get(h); r != nil {
		return r.number, true
	}
	return 0, false
}

// covers reports whether a peer can have a block. Ranges say which bodies and receipts a
// peer has; headers it may have from the first block on. A range may be an epoch old.
func covers(p *peer, q *query, number uint64) bool {
	r := p.blocks.Load()
	if q.headers == nil && number < r.EarliestBlock {
		return false
	}
	return number <= r.LatestBlock+2*rangeStep
}
