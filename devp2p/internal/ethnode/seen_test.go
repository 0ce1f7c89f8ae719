package ethnode

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/rlp"
)

// TestSeen: an announcement says that a transaction is here only once it is: when it was fetched, or
// another peer had sent it.
func TestSeen(t *testing.T) {
	type told struct {
		h    common.Hash
		from enode.ID
		here bool
	}
	all := make(chan told, 16)
	n := newTestNode(t, Config{Chain: chainOf(t), Seen: func(h common.Hash, from enode.ID, here bool) { all <- told{h, from, here} }})
	a, b := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69)), connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	announce := func(p *rawPeer, tx *types.Transaction) {
		p.send(eth.NewPooledTransactionHashesMsg, eth.NewPooledTransactionHashesPacket71{Types: []byte{tx.Type()}, Sizes: []uint32{uint32(tx.Size())}, Hashes: []common.Hash{tx.Hash()}})
	}
	want := func(what string, tx *types.Transaction, from *rawPeer, here bool) {
		t.Helper()
		if got := wait(t, all, what); got != (told{tx.Hash(), from.id, here}) {
			t.Errorf("%s: %v", what, got)
		}
	}
	tx := signedTx(testKey, 80, 0)
	announce(a, tx)
	want("a hash", tx, a, false)
	var q eth.GetPooledTransactionsPacket
	a.expect(eth.GetPooledTransactionsMsg, &q)
	a.send(eth.PooledTransactionsMsg, eth.PooledTransactionsRLPPacket{RequestId: q.RequestId}) // it keeps it
	announce(b, tx)
	want("a hash of another", tx, b, false)
	b.expect(eth.GetPooledTransactionsMsg, &q)
	raw, err := rlp.EncodeToBytes(tx)
	if err != nil {
		t.Fatal(err)
	}
	b.send(eth.PooledTransactionsMsg, eth.PooledTransactionsRLPPacket{RequestId: q.RequestId, PooledTransactionsRLPResponse: []rlp.RawValue{raw}})
	want("the transaction that was fetched", tx, b, true)
	announce(a, tx)
	want("a hash of what is here", tx, a, true)
	other := signedTx(testKey, 81, 0)
	a.send(eth.TransactionsMsg, types.Transactions{other})
	want("a transaction that nobody asked for", other, a, true)
}
