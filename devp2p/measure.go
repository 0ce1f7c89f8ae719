package devp2p

import (
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// A Class is a kind of messages. Peers are chosen for each class by what a typical
// message of it would cost.
type Class string

// The classes.
const (
	// OwnTransactions are those that the user of this node makes. They must stay
	// private: they leave through onions only, whatever the policy.
	OwnTransactions Class = "own-transactions"
	Transactions    Class = "transactions" // of others
	Headers         Class = "headers"
	Bodies          Class = "bodies" // and receipts
)

// classes has the size of a typical answer in bytes, and whether it must stay private.
var classes = map[Class]struct {
	size    float64
	private bool
}{
	OwnTransactions: {500, true},
	Transactions:    {4 << 10, false},
	Headers:         {100 << 10, false},
	Bodies:          {1 << 20, false},
}

// Measure is what is known of one way to a node. The averages are exponential: each
// new sample counts a quarter.
type Measure struct {
	Setup    time.Duration // to connect
	RTT      time.Duration // a round trip; zero: unknown
	Rate     float64       // bytes per second from the node; zero: unknown
	Failures float64       // share of dials that failed, from 0 to 1
	Last     time.Time     // of the last sample; zero: there is none
}

const (
	weight      = 0.25
	maxMeasured = 4096 // nodes; the one whose last sample is oldest goes
	defaultRTT  = time.Second
	defaultRate = 100 << 10 // bytes per second
)

// fresh reports whether there is a measurement that still counts.
func (m Measure) fresh(now time.Time) bool {
	return !m.Last.IsZero() && now.Sub(m.Last) < measureLife
}

// CostOf returns the time that one message of a class is expected to take. Failures
// make it longer.
func (m Measure) CostOf(c Class) time.Duration {
	rtt, rate := m.RTT, m.Rate
	if rtt == 0 {
		// A connection is set up in a few round trips.
		if rtt = m.Setup / 3; rtt == 0 {
			rtt = defaultRTT
		}
	}
	if rate == 0 {
		rate = defaultRate
	}
	each := rtt.Seconds() + classes[c].size/rate
	return time.Duration(each / max(1-m.Failures, 0.05) * float64(time.Second))
}

// Cost is CostOf for one message of each class that need not stay private.
func (m Measure) Cost() (sum time.Duration) {
	for c, rule := range classes {
		if !rule.private {
			sum += m.CostOf(c)
		}
	}
	return sum
}

// way is a way to a node that was taken.
type way uint8

const (
	wayNone way = iota
	wayOnion
	wayAddr
)

// measures has the measurements of nodes. The zero value is ready.
type measures struct {
	mu    sync.Mutex
	nodes map[enode.ID]*nodeMeasures // guarded by mu
}

type nodeMeasures struct {
	onion, addr Measure
	last        way
}

func (nm *nodeMeasures) of(onion bool) *Measure {
	if onion {
		return &nm.onion
	}
	return &nm.addr
}

func (nm *nodeMeasures) newest() time.Time {
	if nm.onion.Last.After(nm.addr.Last) {
		return nm.onion.Last
	}
	return nm.addr.Last
}

// change calls f with the measurements of a node, and makes room for them.
func (b *measures) change(id enode.ID, f func(*nodeMeasures)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nm := b.nodes[id]
	if nm == nil {
		if b.nodes == nil {
			b.nodes = map[enode.ID]*nodeMeasures{}
		}
		if len(b.nodes) >= maxMeasured {
			var oldest enode.ID
			var at time.Time
			for other, m := range b.nodes {
				if t := m.newest(); at.IsZero() || t.Before(at) {
					oldest, at = other, t
				}
			}
			delete(b.nodes, oldest)
		}
		nm = &nodeMeasures{}
		b.nodes[id] = nm
	}
	f(nm)
}

func (b *measures) get(id enode.ID, onion bool) Measure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if nm := b.nodes[id]; nm != nil {
		return *nm.of(onion)
	}
	return Measure{}
}

func (b *measures) last(id enode.ID) way {
	b.mu.Lock()
	defer b.mu.Unlock()
	if nm := b.nodes[id]; nm != nil {
		return nm.last
	}
	return wayNone
}

// took notes the way of a connection.
func (b *measures) took(id enode.ID, onion bool) {
	b.change(id, func(nm *nodeMeasures) {
		nm.last = wayAddr
		if onion {
			nm.last = wayOnion
		}
	})
}

func (b *measures) connected(id enode.ID, onion bool, took time.Duration) {
	b.change(id, func(nm *nodeMeasures) {
		m := nm.of(onion)
		m.Failures *= 1 - weight
		m.Setup = time.Duration(average(float64(m.Setup), float64(took)))
		m.Last = time.Now()
	})
}

func (b *measures) failed(id enode.ID, onion bool) {
	b.change(id, func(nm *nodeMeasures) {
		m := nm.of(onion)
		if m.Last.IsZero() {
			m.Failures = 1
		} else {
			m.Failures += weight * (1 - m.Failures)
		}
		m.Last = time.Now()
	})
}

func (b *measures) roundTrip(id enode.ID, onion bool, took time.Duration) {
	b.change(id, func(nm *nodeMeasures) {
		m := nm.of(onion)
		m.RTT = time.Duration(average(float64(m.RTT), float64(took)))
		m.Last = time.Now()
	})
}

func (b *measures) rate(id enode.ID, onion bool, bytesPerSecond float64) {
	b.change(id, func(nm *nodeMeasures) {
		m := nm.of(onion)
		m.Rate = average(m.Rate, bytesPerSecond)
		m.Last = time.Now()
	})
}

// average adds a sample to an exponential average; zero: it has none yet.
func average(old, sample float64) float64 {
	if old == 0 {
		return sample
	}
	return old + weight*(sample-old)
}

// Measured returns what is known of a way to a node.
func (t *Transport) Measured(id enode.ID, onion bool) Measure { return t.book.get(id, onion) }

// ObserveRTT adds a round trip that a protocol above has measured.
func (t *Transport) ObserveRTT(id enode.ID, onion bool, took time.Duration) {
	if took > 0 {
		t.book.roundTrip(id, onion, took)
	}
}

// Allowed reports whether messages of a class may go to a peer that is connected by its
// onion, or by its address. An unknown class may not go anywhere.
func (t *Transport) Allowed(c Class, onion bool) bool {
	rule, ok := classes[c]
	return ok && (onion || !rule.private && t.cfg.Policy.AllowsClearnet())
}
