package ethnode

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
)

// TestMined takes the transactions of the newest blocks out of the pool, and no other, reads each
// block once, and tells of what is in it, also while the pool is empty.
func TestMined(t *testing.T) {
	told := map[common.Hash]int{}
	var used uint64
	n := newTestNode(t, Config{Chain: chainOf(t), Mined: func(txs []common.Hash, peers int) {
		if peers != 1 {
			t.Errorf("%d peers were asked", peers)
		}
		for _, h := range txs {
			told[h]++
		}
	}, Used: func(next map[common.Address]uint64, peers int) {
		if used = next[testAddr]; peers != 1 {
			t.Errorf("%d peers were asked", peers)
		}
	}})
	server := connectGeth(t, n, eth.ETH70)
	eventually(t, "the node knows the newest block", func() bool { return n.head.Load() != nil })
	of := func(number uint64) []*types.Transaction { return server.chain.GetBlockByNumber(number).Transactions() }
	newest := server.chain.CurrentBlock().Number.Uint64()
	other := signedTx(testKey, newest, 0)
	var mined []*types.Transaction
	for i := range uint64(2) {
		mined = append(mined, of(newest-i)...)
	}
	for _, tx := range append(mined, other) {
		addTx(t, n, tx)
	}
	var past looked
	n.dropMined(t.Context(), &past)
	if len(past.hashes) != agreeBack+1 || past.hashes[agreeBack] != server.chain.CurrentBlock().Hash() || past.top != newest {
		t.Errorf("blocks were read: %+v", past)
	}
	for _, tx := range mined {
		if n.pool.Get(tx.Hash()) != nil {
			t.Error("a mined transaction is in the pool")
		}
	}
	if n.pool.Get(other.Hash()) == nil {
		t.Error("a transaction that was not mined has left the pool")
	}
	if used != newest {
		t.Errorf("the first free nonce is %d, not %d", used, newest)
	}
	if s := n.Status(); s.Pool.Mined != 2 || s.Pool.Count != 1 {
		t.Errorf("status: %+v", s.Pool)
	}
	// What comes when its block was read already leaves, too, and what another transaction replaced in it.
	replaced := signedTx(testKey, newest-1, 1)
	addTx(t, n, mined[0])
	addTx(t, n, replaced)
	before := slices.Clone(past.hashes)
	if n.dropMined(t.Context(), &past); !slices.Equal(past.hashes, before) {
		t.Error("a block is read twice")
	}
	if n.pool.Get(mined[0].Hash()) != nil || n.pool.Get(replaced.Hash()) != nil || n.pool.Get(other.Hash()) == nil {
		t.Error("a nonce that was used stays in the pool, or one that is free does not")
	}
	if s := n.Status(); s.Pool.Mined != 4 || s.Pool.Count != 1 {
		t.Errorf("status: %+v", s.Pool)
	}
	n.pool.Remove([]common.Hash{other.Hash()})
	past = looked{top: newest - 20} // as after a time without answers
	if n.dropMined(t.Context(), &past); len(past.hashes) != 20 || past.top != newest {
		t.Errorf("%d blocks were read of the 20 that were missed", len(past.hashes))
	}
	for number := newest - 40; number <= newest; number++ {
		for _, tx := range of(number) {
			want := 0
			if number > newest-20 {
				want = 1
			}
			if number > newest-4 {
				want = 2 // with an empty record, too
			}
			if told[tx.Hash()] != want {
				t.Errorf("block %d of %d: it told of its transaction %d times, want %d", number, newest, told[tx.Hash()], want)
			}
		}
	}
	past = looked{top: 1}
	if n.dropMined(t.Context(), &past); len(past.hashes) != maxMissed+agreeBack+1 {
		t.Errorf("%d blocks were read after a long time", len(past.hashes))
	}
}

// TestMinedAgain: a block whose body nobody gives is not forgotten.
func TestMinedAgain(t *testing.T) {
	var told []common.Hash
	n := newTestNode(t, Config{Chain: chainOf(t), Rules: Rules{bodies.rule(): ByOnion}, Mined: func(txs []common.Hash, _ int) { told = append(told, txs...) }})
	connectGeth(t, n, eth.ETH70)
	eventually(t, "the node knows the newest block", func() bool { return n.head.Load() != nil })
	var past looked
	if n.dropMined(t.Context(), &past); len(past.hashes) != 0 || told != nil {
		t.Fatalf("blocks without bodies were read: %+v", past)
	}
	n.config.Rules = nil
	if n.dropMined(t.Context(), &past); len(past.hashes) != agreeBack+1 || len(told) == 0 {
		t.Errorf("%+v, %d transactions", past, len(told))
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
