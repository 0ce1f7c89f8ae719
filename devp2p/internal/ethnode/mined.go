package ethnode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	minedEvery = 12 * time.Second // a slot: there are no more blocks than that
	maxLooked  = 64               // blocks that are remembered as looked at
	maxMissed  = 32               // blocks that are looked at later, after a time without answers
)

var errNoBody = errors.New("no peer has the block's body")

// looked are the blocks whose transactions were taken out of the pool.
type looked struct {
	hashes []common.Hash // oldest first
	top    uint64        // the number of the newest
	spent  spent         // what these blocks used
}

// watchMined takes transactions out of the pool that were mined, and tells of them, until ctx ends.
func (n *Node) watchMined(ctx context.Context) {
	t := time.NewTicker(minedEvery)
	defer t.Stop()
	var past looked
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			n.dropMined(ctx, &past)
			n.dropUsed(ctx, time.Now())
		}
	}
}

// dropMined takes the transactions of the newest blocks out of the pool, and those whose nonces the blocks of the last
// minutes used: one that comes after its block was read, or one that another transaction replaced. The blocks are those on which
// peers agree. A peer that tells a wrong one can make a relay forget transactions, but not refuse them
// when they come again. Blocks are read also while the pool is empty: a peer must not learn from it
// whether this node waits for a transaction of its own.
func (n *Node) dropMined(ctx context.Context, past *looked) {
	if len(n.list()) == 0 {
		return
	}
	newest, peers, err := n.Agreed(ctx)
	if err != nil {
		n.log.Debug("the newest blocks are not known", "err", err)
		return
	}
	n.readBlocks(ctx, past, newest, peers)
	next := past.spent.next(newest)
	n.pool.RemoveUsed(next)
	n.config.Used(next, peers)
}

// readBlocks reads the newest blocks, and those that were missed, oldest first.
func (n *Node) readBlocks(ctx context.Context, past *looked, newest []*types.Header, peers int) {
	for _, h := range slices.Backward(append(slices.Clone(newest), n.missed(ctx, past, newest[len(newest)-1])...)) {
		hash := h.Hash()
		if slices.Contains(past.hashes, hash) {
			continue
		}
		var next map[common.Address]uint64
		if h.TxHash != types.EmptyTxsHash {
			txs, err := n.mined(ctx, hash)
			if err != nil {
				n.log.Debug("a block's transactions cannot be read", "err", err)
				return // the next time begins with this block
			}
			hashes := make([]common.Hash, len(txs))
			for i, tx := range txs {
				hashes[i] = tx.Hash()
			}
			n.pool.Remove(hashes)
			n.config.Mined(hashes, peers)
			next = n.used(txs)
		}
		past.hashes = append(past.hashes, hash)
		past.hashes = past.hashes[max(len(past.hashes)-maxLooked, 0):]
		past.spent.add(hash, h.ParentHash, next)
		past.top = h.Number.Uint64() // the newest is last; one that was a lie is not kept
	}
}

// missed returns the headers between the newest block that was looked at and a later one, newest first.
func (n *Node) missed(ctx context.Context, past *looked, later *types.Header) []*types.Header {
	number := later.Number.Uint64()
	if past.top == 0 || number <= past.top+1 {
		return nil
	}
	q := &query{class: headers, headers: &eth.GetBlockHeadersRequest{Origin: eth.HashOrNumber{Hash: later.ParentHash},
		Amount: min(number-past.top-1, maxMissed), Reverse: true}}
	a := n.get(ctx, &peer{}, q)
	if a == nil {
		n.log.Debug("the blocks before the newest ones are not known")
		return nil
	}
	defer a.release()
	var all []*types.Header
	for _, raw := range a.items {
		h := new(types.Header)
		if err := rlp.DecodeBytes(raw, h); err != nil {
			return all // verify has decoded it
		}
		all = append(all, h)
	}
	return all
}

// mined returns a block's transactions. The body has the roots that the block's header tells.
func (n *Node) mined(ctx context.Context, block common.Hash) ([]*types.Transaction, error) {
	a := n.get(ctx, &peer{}, &query{class: bodies, hashes: []common.Hash{block}})
	if a == nil {
		return nil, errNoBody
	}
	defer a.release()
	var b eth.BlockBody
	if err := rlp.DecodeBytes(a.items[0], &b); err != nil {
		return nil, err
	}
	return b.Transactions.Items()
}
