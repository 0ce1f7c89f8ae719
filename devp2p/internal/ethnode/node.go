package ethnode

import (
	"context"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/forkid"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// ClientName begins the names that these nodes tell each other. Relays know each other by
// it: a relay does not pass on another relay's request to a third one, so that requests run
// in no circle.
const ClientName = "chive-eth"

// Versions are the versions of the eth protocol that the node speaks, and how many message
// codes each has.
var Versions = map[uint]uint64{eth.ETH69: 18, eth.ETH70: 18, eth.ETH71: 20}

// A Config is what a Node needs. Zero values mean the defaults.
type Config struct {
	Chain   *Chain // nil: it is learnt from a majority of the peers
	Policy  devp2p.Policy
	Pool    pool.Limits
	MinTip  *big.Int
	NoBlobs bool  // relay no transactions with blobs
	Rules   Rules // which class goes by which peers
	Log     *slog.Logger

	// Score is told what a peer did. It must not wait.
	Score func(enode.ID, Event)
	// RouteOf says how a connected peer is reached. It reports false if it does not know
	// yet, and is asked again later.
	RouteOf func(enode.ID) (devp2p.Route, bool)
	// RTT is told of each measured round trip with a peer, by its onion or not.
	RTT func(id enode.ID, onion bool, took time.Duration)
	// Seen is told of each transaction that a peer announces or sends, and whether the pool has it now: a
	// hash alone is cheap, and shows nothing. It must not wait.
	Seen func(h common.Hash, from enode.ID, here bool)
	// Nonces returns the first free nonces of accounts, by a node of the same user. nil: there is none.
	Nonces func(context.Context, []common.Address) (map[common.Address]uint64, error)
	// Used is told again and again which nonces the last blocks left free, of the accounts in these blocks, and how
	// many peers were asked. It must not wait.
	Used func(next map[common.Address]uint64, peers int)
	// Mined is told of the transactions of each new block on which peers agree, and how many peers
	// were asked. It must not wait.
	Mined func(txs []common.Hash, peers int)
}

// A Node serves peers. It keeps no state of accounts, and no blocks.
type Node struct {
	config   Config
	log      *slog.Logger
	pool     *pool.Pool
	refused  *pool.Known // transactions that failed their checks, or had no room
	chain    atomic.Pointer[Chain]
	fork     atomic.Pointer[forkid.ID] // of a chain that is learnt
	election election
	head     atomic.Pointer[head]
	moved    chan struct{} // a peer told of another range; capacity 1
	headers  *headerCache
	agreed   agreement
	fetch    *fetcher
	parsing  *semaphore.Weighted // bytes of transactions that are decoded now
	answers  *semaphore.Weighted // bytes of answers that wait to be passed on
	verifies *semaphore.Weighted // transactions that are checked at the same time
	blobs    *rate.Limiter       // blobs whose proofs are checked
	counts   counts

	mu    sync.Mutex
	peers map[enode.ID]*peer
}

const (
	parsingBytes = 32 << 20
	answerBytes  = 64 << 20
	// Blobs whose proofs are checked, a second: more than any network has, and no more
	// than half a processor's work.
	allBlobs, allBlobsBurst = 4, 64
)

// New returns a node. Run must run while it has peers.
func New(c Config) *Node {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Score == nil {
		c.Score = func(enode.ID, Event) {}
	}
	if c.RouteOf == nil {
		c.RouteOf = func(enode.ID) (devp2p.Route, bool) {
			return devp2p.Route{Why: "a connection that the program was given"}, true
		}
	}
	if c.RTT == nil {
		c.RTT = func(enode.ID, bool, time.Duration) {}
	}
	if c.Seen == nil {
		c.Seen = func(common.Hash, enode.ID, bool) {}
	}
	if c.Mined == nil {
		c.Mined = func([]common.Hash, int) {}
	}
	if c.Used == nil {
		c.Used = func(map[common.Address]uint64, int) {}
	}
	n := &Node{
		config:   c,
		log:      c.Log,
		pool:     pool.New(c.Pool),
		refused:  pool.NewKnown(1 << 16),
		moved:    make(chan struct{}, 1),
		headers:  newHeaderCache(4096),
		agreed:   agreement{turn: make(chan struct{}, 1)},
		parsing:  semaphore.NewWeighted(parsingBytes),
		answers:  semaphore.NewWeighted(answerBytes),
		blobs:    rate.NewLimiter(allBlobs, allBlobsBurst),
		verifies: semaphore.NewWeighted(2),
		peers:    make(map[enode.ID]*peer),
	}
	n.fetch = newFetcher(n)
	n.chain.Store(c.Chain)
	return n
}

// Run does the node's own work until ctx ends: it follows the newest block, and drops
// transactions that are old or were mined.
func (n *Node) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { n.watchHead(ctx) })
	wg.Go(func() { n.watchMined(ctx) })
	wg.Go(func() {
		t := time.NewTicker(time.Minute)
		defer t.Stop()
		for {
			select {
			case now := <-t.C:
				n.pool.Expire(now)
			case <-ctx.Done():
				return
			}
		}
	})
	wg.Wait()
	return ctx.Err()
}

// Protocols returns what a p2p.Server runs.
func (n *Node) Protocols() []p2p.Protocol {
	var all []p2p.Protocol
	for version, length := range Versions {
		all = append(all, p2p.Protocol{
			Name:    eth.ProtocolName,
			Version: version,
			Length:  length,
			Run:     func(p *p2p.Peer, rw p2p.MsgReadWriter) error { return n.serve(p, rw, version) },

			Attributes: n.attributes(),
		})
	}
	return all
}

// attributes returns the entry "eth" for the node's record. It says that the node speaks eth,
// and on which chain, if that is known at the start.
func (n *Node) attributes() []enr.Entry {
	c := n.Chain()
	if c == nil {
		return nil
	}
	return []enr.Entry{enr.WithEntry(eth.ProtocolName, []forkid.ID{c.forkID(n.headOr(c))})}
}

// serve serves one peer until its connection ends. The error that it returns is the reason
// that the peer is told.
func (n *Node) serve(pp *p2p.Peer, rw p2p.MsgReadWriter, version uint) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(p2p.DiscQuitting)
	err := n.servePeer(ctx, cancel, pp, rw, version)
	reason, event := reasonOf(err)
	if event != "" {
		n.config.Score(pp.ID(), event)
		n.counts.fault(event)
		n.log.Debug("a peer broke a rule", "event", string(event), "err", err)
	}
	return reason
}

func (n *Node) servePeer(ctx context.Context, cancel context.CancelCauseFunc, pp *p2p.Peer, rw p2p.MsgReadWriter, version uint) error {
	s, err := n.handshake(ctx, pp, rw, version)
	if err != nil {
		return err
	}
	p := newPeer(ctx, cancel, pp, rw, version, s)
	p.relay = strings.HasPrefix(pp.Fullname(), ClientName+"/")
	if !n.join(p) {
		return p2p.DiscAlreadyConnected
	}
	defer n.leave(p)
	if c := n.chain.Load(); c != nil && !c.is(p.chain) { // decided since the handshake: expel may have missed it
		return errForeign
	}
	go p.gossip(n)
	n.wakeHead()
	p.announce(n.pool.Some(maxGossip))
	for {
		if err := n.readOne(p); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
}

func (n *Node) join(p *peer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.peers[p.id]; ok {
		return false
	}
	n.peers[p.id] = p
	return true
}

func (n *Node) leave(p *peer) {
	n.mu.Lock()
	delete(n.peers, p.id)
	n.mu.Unlock()
	p.end(errors.New("the peer has left"))
	n.fetch.left(p)
	n.wakeHead()
}

// list returns the peers that are connected now.
func (n *Node) list() []*peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*peer, 0, len(n.peers))
	for _, p := range n.peers {
		all = append(all, p)
	}
	return all
}

func (n *Node) wakeHead() {
	select {
	case n.moved <- struct{}{}:
	default:
	}
}

// blame ends the connection of a peer whose answer is a fault, outside of its own loop.
func (n *Node) blame(p *peer, err error) {
	var f *fault
	if errors.As(err, &f) {
		p.end(err)
		p.p2p.Disconnect(f.reason)
	}
}
