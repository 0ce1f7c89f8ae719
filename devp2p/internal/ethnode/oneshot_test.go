package ethnode

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// TestDeliver delivers one transaction to go-ethereum, and asks whether its pool has it.
func TestDeliver(t *testing.T) {
	for _, keep := range []bool{true, false} {
		b, err := testChain()
		if err != nil {
			t.Fatal(err)
		}
		n := New(Config{Chain: chainOf(t)})
		theirs, ours := p2p.MsgPipe()
		tx := signedTx(testKey, 80, 0)
		type outcome struct {
			d   Delivery
			err error
		}
		done := make(chan outcome, 1)
		go func() {
			for _, proto := range n.Deliver(tx, func(d Delivery, err error) { done <- outcome{d, err} }) {
				if proto.Version == eth.ETH70 {
					proto.Run(p2p.NewPeerPipe(enode.ID{1}, "geth", nil, ours), ours)
				}
			}
			ours.Close()
		}()
		g := &gethPeer{blockchain: b, pool: make(map[common.Hash]*types.Transaction), got: make(chan eth.Packet, 8)}
		g.peer = eth.NewPeer(eth.ETH70, p2p.NewPeerPipe(enode.ID{2}, "chive", nil, theirs), theirs, g, g.BlobPool(), b.chain.Config())
		defer g.peer.Close()
		h := b.chain.CurrentBlock()
		if err := g.peer.Handshake(b.spec.Config.ChainID.Uint64(), b.chain, eth.BlockRangeUpdatePacket{LatestBlock: h.Number.Uint64(), LatestBlockHash: h.Hash()}); err != nil {
			t.Fatal(err)
		}
		go eth.Handle(g, g.peer)
		p, ok := wait(t, g.got, "the transaction").(*eth.TransactionsPacket)
		if !ok {
			t.Fatal("another message came first")
		}
		items, err := p.Items()
		if err != nil || len(items) != 1 || items[0].Hash() != tx.Hash() {
			t.Fatalf("%v, %v", items, err)
		}
		if keep {
			g.add(tx)
		}
		got := wait(t, done, "the end")
		if got.err != nil || !got.d.Sent || got.d.Accepted != keep {
			t.Errorf("keep %v: %+v, %v", keep, got.d, got.err)
		}
		if n.pool.Get(tx.Hash()) != nil || len(n.list()) != 0 {
			t.Error("the transaction of the user is in the pool, from which all peers are served")
		}
	}
}
