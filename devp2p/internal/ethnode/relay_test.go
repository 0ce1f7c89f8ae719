package ethnode

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
)

// TestRelayTransaction sends a transaction from one go-ethereum to another through a node:
// sent whole, and announced.
func TestRelayTransaction(t *testing.T) {
	for _, announce := range []bool{false, true} {
		for version := range Versions {
			n := newTestNode(t, Config{Chain: chainOf(t)})
			a, b := connectGeth(t, n, version), connectGeth(t, n, eth.ETH69)
			eventually(t, "both are peers", func() bool { return len(n.list()) == 2 })
			tx := signedTx(testKey, 80, 0)
			a.add(tx)
			if announce {
				a.peer.AsyncSendPooledTransactionHashes([]common.Hash{tx.Hash()})
			} else if err := a.peer.SendTransactions(types.Transactions{tx}); err != nil {
				t.Fatal(err)
			}
			switch p := wait(t, b.got, "the transaction arrives").(type) {
			case *eth.TransactionsPacket:
				items, err := p.Items()
				if err != nil || len(items) != 1 || items[0].Hash() != tx.Hash() {
					t.Errorf("got %v, %v", items, err)
				}
			case *eth.NewPooledTransactionHashesPacket71:
				if len(p.Hashes) != 1 || p.Hashes[0] != tx.Hash() || uint64(p.Sizes[0]) != tx.Size() {
					t.Errorf("announced: %v", p)
				}
			default:
				t.Errorf("got %T", p)
			}
			select {
			case p := <-a.got:
				t.Errorf("the sender gets its own transaction back: %T", p)
			default:
			}
		}
	}
}

// TestPassRequestsOn lets one go-ethereum ask a node for what another one has.
func TestPassRequestsOn(t *testing.T) {
	for version := range Versions {
		n := newTestNode(t, Config{Chain: chainOf(t)})
		server := connectGeth(t, n, version)
		client := connectGeth(t, n, eth.ETH70)
		eventually(t, "the node knows the newest block", func() bool { return n.head.Load() != nil })

		head := server.chain.CurrentBlock()
		var hashes []common.Hash
		for i := uint64(1); i <= 40; i++ {
			hashes = append(hashes, server.chain.GetCanonicalHash(i))
		}
		sink := make(chan *eth.Response, 1)
		asked := func(err error) any {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			r := wait(t, sink, "an answer")
			r.Done <- nil
			return r.Meta
		}
		_, err := client.peer.RequestHeadersByHash(head.Hash(), 5, 0, true, sink)
		if got := asked(err).([]common.Hash); len(got) != 5 || got[0] != head.Hash() {
			t.Errorf("eth/%d: headers: %v", version, got)
		}
		_, err = client.peer.RequestBodies(hashes, sink)
		roots := asked(err).(eth.BlockBodyHashes)
		if len(roots.TransactionRoots) != 40 || roots.TransactionRoots[7] != server.chain.GetBlockByNumber(8).TxHash() {
			t.Errorf("eth/%d: %d bodies", version, len(roots.TransactionRoots))
		}
		var gas, times []uint64
		for _, h := range hashes {
			b := server.chain.GetBlockByHash(h)
			gas, times = append(gas, b.GasUsed()), append(times, b.Time())
		}
		_, err = client.peer.RequestReceipts(hashes, gas, times, sink)
		receipts := asked(err).([]common.Hash)
		if len(receipts) != 40 || receipts[3] != server.chain.GetBlockByNumber(4).ReceiptHash() {
			t.Errorf("eth/%d: %d receipts", version, len(receipts))
		}
		s := n.Status()
		if s.Head == nil || s.Head.Number != 80 {
			t.Errorf("the head is %v", s.Head)
		}
	}
}
