package ethnode

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

// rangeStep is the number of blocks after which peers are told of a new range: the
// protocol wants no more than one update for each epoch of 32 blocks.
const rangeStep = 32

// A head is the newest block as far as the node knows.
type head struct {
	header *types.Header
	hash   common.Hash
}

// witnesses returns the peers whose block ranges count, of those that may be asked for headers:
// full nodes, or relays if there is no full node, since relays only repeat.
func (n *Node) witnesses() []*peer {
	all := slices.DeleteFunc(n.list(), func(p *peer) bool { return !n.allows(headers.rule(), p) })
	full := slices.DeleteFunc(slices.Clone(all), func(p *peer) bool { return p.relay })
	if len(full) > 0 {
		return full
	}
	return all
}

// median returns the peer whose newest block is the median of all peers' newest blocks: as
// long as fewer than half of the peers lie, it is a block that an honest one has told, or
// lies between two of these.
func (n *Node) median() (*peer, *eth.BlockRangeUpdatePacket) {
	all := n.witnesses()
	if len(all) == 0 {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b *peer) int { return cmp.Compare(a.blocks.Load().LatestBlock, b.blocks.Load().LatestBlock) })
	p := all[(len(all)-1)/2]
	return p, p.blocks.Load()
}

// blockRange returns the range of blocks that the node can get from its peers. It is the
// first block alone while no peer is there.
func (n *Node) blockRange() eth.BlockRangeUpdatePacket {
	r := eth.BlockRangeUpdatePacket{}
	if c := n.chain.Load(); c != nil {
		r.LatestBlockHash = c.Genesis
	}
	h := n.head.Load()
	if h == nil {
		return r
	}
	r.LatestBlock, r.LatestBlockHash = h.header.Number.Uint64(), h.hash
	r.EarliestBlock = r.LatestBlock
	for _, p := range n.witnesses() {
		r.EarliestBlock = min(r.EarliestBlock, p.blocks.Load().EarliestBlock)
	}
	return r
}

// watchHead follows the peers' newest blocks until ctx ends.
func (n *Node) watchHead(ctx context.Context) {
	var told uint64
	retry := time.NewTicker(time.Minute)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.moved:
		case <-retry.C:
		}
		p, r := n.median()
		if p == nil {
			continue
		}
		if h := n.head.Load(); h == nil || h.hash != r.LatestBlockHash {
			if !n.follow(ctx, p, r) {
				continue
			}
		}
		ours := n.blockRange()
		if told == 0 || ours.LatestBlock < told || ours.LatestBlock >= told+rangeStep {
			told = ours.LatestBlock
			for _, p := range n.list() {
				p.tellRange(ours)
			}
		}
	}
}

// follow gets the header of a peer's newest block, and makes it our head.
func (n *Node) follow(ctx context.Context, p *peer, r *eth.BlockRangeUpdatePacket) bool {
	q := &query{class: headers, headers: &eth.GetBlockHeadersRequest{Origin: eth.HashOrNumber{Hash: r.LatestBlockHash}, Amount: 1}}
	a, err := n.ask(ctx, p, q)
	if err != nil {
		return false
	}
	defer a.release()
	if err := n.verify(ctx, p, q, a); err != nil {
		n.blame(p, err)
		return false
	}
	if len(a.items) == 0 {
		return false
	}
	h := new(types.Header)
	if err := rlp.DecodeBytes(a.items[0], h); err != nil || h.Number.Uint64() != r.LatestBlock {
		n.blame(p, faultf(p2p.DiscSubprotocolError, Wrong, "the newest block has another number than the peer told"))
		return false
	}
	n.head.Store(&head{header: h, hash: r.LatestBlockHash})
	return true
}

// rulesHead returns the header that transactions are checked against.
func (n *Node) rulesHead() *types.Header {
	if h := n.head.Load(); h != nil {
		return h.header
	}
	return unknownHead(time.Now())
}
