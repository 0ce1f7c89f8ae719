package ethnode

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// What is remembered of blocks.
const (
	maxSenders = 4096    // accounts of one block: it takes a signature each to know them
	maxSpent   = 1 << 16 // accounts of all blocks
)

// spent says which nonces the last blocks used.
type spent struct {
	blocks map[common.Hash]spentBlock
	order  []common.Hash // oldest first
	size   int           // accounts of all blocks
}

type spentBlock struct {
	parent common.Hash
	next   map[common.Address]uint64 // the first nonce of an account that is free after the block
}

// add remembers a block, and forgets the oldest ones beyond the bounds.
func (s *spent) add(hash, parent common.Hash, next map[common.Address]uint64) {
	if _, ok := s.blocks[hash]; ok {
		return
	}
	if s.blocks == nil {
		s.blocks = make(map[common.Hash]spentBlock)
	}
	s.blocks[hash] = spentBlock{parent, next}
	s.order = append(s.order, hash)
	s.size += len(next)
	for len(s.order) > maxLooked || s.size > maxSpent {
		s.size -= len(s.blocks[s.order[0]].next)
		delete(s.blocks, s.order[0])
		s.order = s.order[1:]
	}
}

// next returns the first free nonces after the newest of some headers, as far as its own ancestors are known. A
// block of another branch, or one that was a lie, does not count as soon as the peers agree on others.
func (s *spent) next(newest []*types.Header) map[common.Address]uint64 {
	all := make(map[common.Address]uint64)
	for _, h := range newest {
		at := h.Hash()
		if _, ok := s.blocks[at]; !ok {
			continue // it could not be read yet
		}
		for b, ok := s.blocks[at]; ok; b, ok = s.blocks[b.parent] {
			for from, nonce := range b.next {
				all[from] = max(all[from], nonce)
			}
		}
		break
	}
	return all
}

// used returns the first free nonces after a block's transactions.
func (n *Node) used(txs []*types.Transaction) map[common.Address]uint64 {
	chain := n.chain.Load()
	if chain == nil {
		return nil
	}
	signer := types.LatestSigner(chain.Config)
	next := make(map[common.Address]uint64)
	for _, tx := range txs[:min(len(txs), maxSenders)] {
		if from, err := types.Sender(signer, tx); err == nil && tx.Nonce() < 1<<64-1 {
			next[from] = max(next[from], tx.Nonce()+1)
		}
	}
	return next
}

// The questions to the user's own node.
const (
	maxAskNonces = 256             // accounts at once
	askedEach    = 3 * time.Minute // for a transaction that stays
)

// dropUsed takes transactions out of the pool whose nonces were used as the user's own node says: it knows the
// blocks from before this node began. It is asked for all accounts of the pool in turn, so that nothing follows from
// what a wallet asks.
func (n *Node) dropUsed(ctx context.Context, now time.Time) {
	if n.config.Nonces == nil {
		return
	}
	accounts := n.pool.Senders(maxAskNonces, now, askedEach)
	if len(accounts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, minedEvery)
	defer cancel()
	next, err := n.config.Nonces(ctx, accounts)
	if err != nil {
		n.log.Debug("nonces are not known", "err", err)
	}
	n.pool.RemoveUsed(next)
}
