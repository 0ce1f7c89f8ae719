package ethnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/forkid"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	// handshakeTime bounds the exchange of status messages. A round trip over two onion
	// circuits may take seconds.
	handshakeTime = 30 * time.Second
	// maxStatus bounds a status message, in bytes: it has 7 small fields.
	maxStatus = 512
	// electionSize is the number of votes that decide which chain it is, if the
	// configuration does not say.
	electionSize = 3
	// maxVotes bounds the peers whose votes are kept.
	maxVotes = 64
)

// identity is the part of a status that nodes of one chain share.
type identity struct {
	network uint64
	genesis common.Hash
}

func identityOf(s *eth.StatusPacket) identity { return identity{s.NetworkID, s.Genesis} }

// is reports whether a peer's identity is that of the chain.
func (c *Chain) is(id identity) bool { return id == identity{c.Network, c.Genesis} }

// election learns the chain from the status messages of peers: the first identity that
// electionSize peers tell, and more than half of all, is the chain. Until then, each peer
// is answered with its own status. It is as honest as most of the peers.
type election struct {
	mu    sync.Mutex
	votes map[[32]byte]identity // by node ID: a node has one vote
	forks map[forkid.ID]int
}

// vote counts a peer's status, and returns the chain if it is decided now.
func (e *election) vote(id [32]byte, s *eth.StatusPacket) *Chain {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.votes == nil {
		e.votes = make(map[[32]byte]identity)
	}
	if _, ok := e.votes[id]; !ok && len(e.votes) >= maxVotes {
		return nil
	}
	e.votes[id] = identityOf(s)
	count := make(map[identity]int)
	for _, v := range e.votes {
		if count[v]++; count[v] >= electionSize && 2*count[v] > len(e.votes) {
			return learntChain(v.network, v.genesis)
		}
	}
	return nil
}

// fork counts a fork identifier that a peer of the chain told, and returns the one that
// was told most among the latest.
func (e *election) fork(id forkid.ID) forkid.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forks == nil || len(e.forks) > maxVotes {
		e.forks = make(map[forkid.ID]int)
	}
	best := id
	for k := range e.forks { // older ones count less and less
		e.forks[k] -= e.forks[k] / 16
	}
	e.forks[id] += 16
	for k, n := range e.forks {
		if n > e.forks[best] {
			best = k
		}
	}
	return best
}

// handshake exchanges status messages with a peer, and checks that it is on our chain. It
// returns the peer's status.
func (n *Node) handshake(ctx context.Context, p *p2p.Peer, rw p2p.MsgReadWriter, version uint) (*eth.StatusPacket, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	type result struct {
		s   *eth.StatusPacket
		err error
	}
	read := make(chan result, 1) // both goroutines end at the latest when the connection does
	sent := make(chan error, 1)
	go func() {
		s, err := readStatus(rw)
		read <- result{s, err}
	}()
	send := func(s *eth.StatusPacket) { go func() { sent <- p2p.Send(rw, eth.StatusMsg, s) }() }
	chain := n.chain.Load()
	if chain != nil {
		send(n.status(chain, version))
	}
	var theirs *eth.StatusPacket
	for done := 0; done < 2; {
		select {
		case r := <-read:
			if r.err != nil {
				return nil, r.err
			}
			theirs = r.s
			if chain == nil {
				// The chain is not decided: the peer is told what it believes itself.
				if won := n.election.vote(p.ID(), theirs); won != nil && n.chain.CompareAndSwap(nil, won) {
					n.expel(won)
				}
				mirror := *theirs
				mirror.ProtocolVersion = uint32(version)
				send(&mirror)
			}
			if c := n.chain.Load(); c != nil {
				if err := n.compare(c, theirs, version); err != nil {
					return nil, err
				}
			}
			done++
		case err := <-sent:
			if err != nil {
				return nil, fmt.Errorf("send the status: %w", err)
			}
			done++
		case <-ctx.Done():
			return nil, &fault{p2p.DiscReadTimeout, Slow, fmt.Errorf("the status did not come: %w", context.Cause(ctx))}
		}
	}
	return theirs, nil
}

// errForeign is the fault of a peer that came before the chain was decided, and is on another.
var errForeign = &fault{p2p.DiscUselessPeer, Foreign, errors.New("another chain than most peers tell")}

// expel sends the peers away that are on another chain than the one that was decided.
func (n *Node) expel(c *Chain) {
	for _, p := range n.list() {
		if !c.is(p.chain) {
			n.blame(p, errForeign)
		}
	}
}

// readStatus reads the first message of a peer.
func readStatus(r p2p.MsgReader) (*eth.StatusPacket, error) {
	m, err := r.ReadMsg()
	if err != nil {
		return nil, err
	}
	defer m.Discard()
	if m.Code != eth.StatusMsg {
		return nil, malformed("the first message has code %#x, and is no status", m.Code)
	}
	if m.Size > maxStatus {
		return nil, malformed("a status of %d bytes", m.Size)
	}
	s := new(eth.StatusPacket)
	if err := rlp.NewStream(m.Payload, uint64(m.Size)).Decode(s); err != nil {
		return nil, malformed("status: %w", err)
	}
	r0 := eth.BlockRangeUpdatePacket{EarliestBlock: s.EarliestBlock, LatestBlock: s.LatestBlock, LatestBlockHash: s.LatestBlockHash}
	if err := r0.Validate(); err != nil {
		return nil, malformed("status: %w", err)
	}
	return s, nil
}

// compare reports whether a status belongs to our chain.
func (n *Node) compare(c *Chain, s *eth.StatusPacket, version uint) error {
	foreign := func(format string, a ...any) error {
		return faultf(p2p.DiscUselessPeer, Foreign, format, a...)
	}
	switch {
	case uint(s.ProtocolVersion) != version:
		return malformed("a status of version %d on eth/%d", s.ProtocolVersion, version)
	case s.NetworkID != c.Network:
		return foreign("network %d, and not %d", s.NetworkID, c.Network)
	case s.Genesis != c.Genesis:
		return foreign("another genesis")
	}
	if c.learnt() {
		n.fork.Store(new(n.election.fork(s.ForkID)))
		return nil
	}
	if err := forkid.NewFilter(view{c, n.headOr(c)})(s.ForkID); err != nil {
		return foreign("fork: %w", err)
	}
	return nil
}

// headOr returns the newest block, or the first one if none is known.
func (n *Node) headOr(c *Chain) *types.Header {
	if h := n.head.Load(); h != nil {
		return h.header
	}
	return c.block.Header()
}

// status returns what peers are told.
func (n *Node) status(c *Chain, version uint) *eth.StatusPacket {
	s := &eth.StatusPacket{ProtocolVersion: uint32(version), NetworkID: c.Network, Genesis: c.Genesis}
	r := n.blockRange()
	s.EarliestBlock, s.LatestBlock, s.LatestBlockHash = r.EarliestBlock, r.LatestBlock, r.LatestBlockHash
	if c.learnt() {
		if f := n.fork.Load(); f != nil {
			s.ForkID = *f
		}
	} else {
		s.ForkID = c.forkID(n.headOr(c))
	}
	return s
}
