package ethnode

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
)

// TestMined takes the transactions of the newest blocks out of the pool, and no other, and reads
// each block once.
func TestMined(t *testing.T) {
	n := newTestNode(t, Config{Chain: chainOf(t)})
	server := connectGeth(t, n, eth.ETH70)
	eventually(t, "the node knows the newest block", func() bool { return n.head.Load() != nil })
	if looked := n.dropMined(t.Context(), nil); looked != nil {
		t.Error("blocks are read for an empty pool")
	}
	other := signedTx(testKey, 80, 0)
	var mined []*types.Transaction
	for i := range uint64(2) {
		mined = append(mined, server.chain.GetBlockByNumber(80-i).Transactions()...)
	}
	for _, tx := range append(mined, other) {
		addTx(t, n, tx)
	}
	looked := n.dropMined(t.Context(), nil)
	if len(looked) != agreeBack+1 || looked[agreeBack] != server.chain.CurrentBlock().Hash() {
		t.Errorf("%d blocks were read", len(looked))
	}
	for _, tx := range mined {
		if n.pool.Get(tx.Hash()) != nil {
			t.Error("a mined transaction is in the pool")
		}
	}
	if n.pool.Get(other.Hash()) == nil {
		t.Error("a transaction that was not mined has left the pool")
	}
	if s := n.Status(); s.Pool.Mined != 2 || s.Pool.Count != 1 {
		t.Errorf("status: %+v", s.Pool)
	}
	addTx(t, n, mined[0])
	if again := n.dropMined(t.Context(), looked); len(again) != len(looked) || n.pool.Get(mined[0].Hash()) == nil {
		t.Error("a block is read twice")
	}
}

// TestNewest: status tells the newest block on which peers agree, which comes before they tell
// of it.
func TestNewest(t *testing.T) {
	n := New(Config{})
	if _, ok := n.HeadNumber(); ok {
		t.Error("there is a block without peers")
	}
	all := row(0, 40, 99, 0)
	n.head.Store(&head{header: all[10], hash: all[10].Hash()})
	if got, ok := n.HeadNumber(); !ok || got != 10 {
		t.Errorf("block %d", got)
	}
	n.agreed.headers = []*types.Header{all[20]}
	if got, _ := n.HeadNumber(); got != 20 || n.Status().Head.Number != 20 {
		t.Errorf("block %d after peers agreed on 20", got)
	}
	n.head.Store(&head{header: all[30], hash: all[30].Hash()})
	if got, _ := n.HeadNumber(); got != 30 {
		t.Errorf("block %d after a peer told of 30", got)
	}
}

// addTx puts a transaction into the pool.
func addTx(t *testing.T, n *Node, tx *types.Transaction) {
	t.Helper()
	raw, err := rlp.EncodeToBytes(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.pool.Add(tx, raw, "test", time.Now()); err != nil {
		t.Fatal(err)
	}
}
