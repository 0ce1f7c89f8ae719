package ethnode

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"golang.org/x/time/rate"
)

// What one peer may make us hold and do.
const (
	knownTxs   = 8192 // hashes that we remember that it knows, at 8 bytes
	maxGossip  = 4096 // hashes that wait to be announced to it
	maxServing = 32   // requests of its own that are being answered
	maxAsked   = 64   // requests to it that have no answer yet

	txRate, txBurst             = 100, 2000 // transactions that we check for it, a second
	announceRate, announceBurst = 500, 8192 // announced hashes that we look at, a second
	blobRate, blobBurst         = 5, 64     // of these, with blobs: their proofs take milliseconds to check
	requestRate, requestBurst   = 50, 500   // requests, a second
	rangeRate, rangeBurst       = 1, 10     // updates of its block range, a second
	floodBurst                  = 100       // drops by a rate until the connection ends; one is forgiven a second
)

// A peer is one connection that has passed the handshake.
type peer struct {
	id      enode.ID
	p2p     *p2p.Peer
	rw      p2p.MsgReadWriter
	version uint
	chain   identity                     // that it has told
	relay   bool                         // it is another relay, and has no blocks of its own
	way     atomic.Pointer[devp2p.Route] // nil: not known yet
	since   time.Time
	done    <-chan struct{} // closed when the connection is over
	end     context.CancelCauseFunc

	blocks   atomic.Pointer[eth.BlockRangeUpdatePacket]
	known    *pool.Known
	measured measured

	txs, announces, blobs, requests, ranges, floods *rate.Limiter

	mu      sync.Mutex
	asked   map[uint64]*pending
	late    [maxAsked]uint64 // IDs of requests that timed out: their answers are no fault
	nlate   int
	serving int
	full    []common.Hash // transactions that wait to be sent
	hashes  []common.Hash // transactions that wait to be announced
	told    *eth.BlockRangeUpdatePacket
	wake    chan struct{} // there is something for gossip; capacity 1
	writing chan struct{} // held while a message is encoded and written; capacity 1
}

func newPeer(ctx context.Context, end context.CancelCauseFunc, pp *p2p.Peer, rw p2p.MsgReadWriter, version uint, s *eth.StatusPacket) *peer {
	p := &peer{
		id: pp.ID(), p2p: pp, rw: rw, version: version, chain: identityOf(s), since: time.Now(),
		done: ctx.Done(), end: end,
		known:     pool.NewKnown(knownTxs),
		txs:       rate.NewLimiter(txRate, txBurst),
		announces: rate.NewLimiter(announceRate, announceBurst),
		blobs:     rate.NewLimiter(blobRate, blobBurst),
		requests:  rate.NewLimiter(requestRate, requestBurst),
		ranges:    rate.NewLimiter(rangeRate, rangeBurst),
		floods:    rate.NewLimiter(1, floodBurst),
		asked:     make(map[uint64]*pending),
		wake:      make(chan struct{}, 1),
		writing:   make(chan struct{}, 1),
	}
	p.blocks.Store(&eth.BlockRangeUpdatePacket{
		EarliestBlock: s.EarliestBlock, LatestBlock: s.LatestBlock, LatestBlockHash: s.LatestBlockHash,
	})
	return p
}

// flood counts a message that is dropped because of a rate. It returns a fault when the
// peer does not stop.
func (p *peer) flood(n *Node, what string) error {
	n.counts.dropped.Add(1)
	if p.floods.Allow() {
		return nil
	}
	return faultf(p2p.DiscUselessPeer, Flood, "too many %s", what)
}

// begin takes a slot for answering a request of the peer. finish gives it back.
func (p *peer) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving >= maxServing {
		return false
	}
	p.serving++
	return true
}

func (p *peer) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving--
}

// tellRange lets the peer know our range of blocks soon.
func (p *peer) tellRange(r eth.BlockRangeUpdatePacket) {
	p.mu.Lock()
	p.told = &r
	p.mu.Unlock()
	p.kick()
}

func (p *peer) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// send writes a message. Only one is encoded at a time, since a message that waits for a
// slow peer takes memory.
func (p *peer) send(code uint64, data any) error {
	select {
	case p.writing <- struct{}{}:
	case <-p.done:
		return p2p.ErrShuttingDown
	}
	defer func() { <-p.writing }()
	return p2p.Send(p.rw, code, data)
}

// route says how the peer is reached. A peer whose way is not known yet counts as one
// without an onion.
func (n *Node) route(p *peer) devp2p.Route {
	if r, known := n.routeKnown(p); known {
		return r
	}
	return devp2p.Route{Why: "not known yet"}
}

// routeKnown is route; known is false if the way is not known yet.
func (n *Node) routeKnown(p *peer) (r devp2p.Route, known bool) {
	if r := p.way.Load(); r != nil {
		return *r, true
	}
	r, known = n.config.RouteOf(p.id)
	if known {
		p.way.Store(&r)
	}
	return r, known
}
