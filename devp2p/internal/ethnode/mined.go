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
)

var errNoBody = errors.New("no peer has the block's body")

// watchMined takes transactions out of the pool that were mined, until ctx ends.
func (n *Node) watchMined(ctx context.Context) {
	t := time.NewTicker(minedEvery)
	defer t.Stop()
	var looked []common.Hash // blocks, oldest first
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			looked = n.dropMined(ctx, looked)
		}
	}
}

// dropMined takes the transactions of the newest blocks out of the pool, and returns the blocks that
// were looked at, up to now. The blocks are those on which peers agree. A peer that tells a wrong
// one can make a relay forget transactions, but not refuse them when they come again.
func (n *Node) dropMined(ctx context.Context, looked []common.Hash) []common.Hash {
	if n.pool.Stats().Count == 0 || len(n.list()) == 0 {
		return looked // then a body would be fetched for nothing
	}
	newest, _, err := n.Agreed(ctx)
	if err != nil {
		n.log.Debug("the newest blocks are not known", "err", err)
		return looked
	}
	for _, h := range slices.Backward(newest) {
		hash := h.Hash()
		if slices.Contains(looked, hash) {
			continue
		}
		if h.TxHash != types.EmptyTxsHash {
			txs, err := n.mined(ctx, hash)
			if err != nil {
				n.log.Debug("a block's transactions cannot be read", "err", err)
				continue
			}
			n.pool.Remove(txs)
		}
		looked = append(looked, hash)
	}
	return looked[max(len(looked)-maxLooked, 0):]
}

// mined returns the hashes of a block's transactions. The body has the roots that the block's
// header tells.
func (n *Node) mined(ctx context.Context, block common.Hash) ([]common.Hash, error) {
	a := n.get(ctx, &peer{}, &query{class: bodies, hashes: []common.Hash{block}})
	if a == nil {
		return nil, errNoBody
	}
	defer a.release()
	var b eth.BlockBody
	if err := rlp.DecodeBytes(a.items[0], &b); err != nil {
		return nil, err
	}
	txs, err := b.Transactions.Items()
	if err != nil {
		return nil, err
	}
	hashes := make([]common.Hash, len(txs))
	for i, tx := range txs {
		hashes[i] = tx.Hash()
	}
	return hashes, nil
}
