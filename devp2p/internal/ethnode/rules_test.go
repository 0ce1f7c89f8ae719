package ethnode

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// TestParseRules reads rules, and refuses what has no meaning.
func TestParseRules(t *testing.T) {
	for text, want := range map[string]Rules{
		"":                            {},
		"gossip=onion, bulk=clearnet": {"transactions": ByOnion, "announcements": ByOnion, "bodies": ByAddress, "receipts": ByAddress, "access-lists": ByAddress},
		"all=onion,headers=any": {"transactions": ByOnion, "announcements": ByOnion, "headers": ByAny, "bodies": ByOnion, "receipts": ByOnion,
			"access-lists": ByOnion},
	} {
		if got, err := ParseRules(text, devp2p.PreferOnion); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"gossip": "CLASS=WAY", "gossip=tor": "CLASS=WAY", "blobs=any": "want one of transactions, announcements", "gossip=onion,": "CLASS=WAY",
	} {
		if _, err := ParseRules(text, devp2p.Adaptive); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, policy := range map[string]devp2p.Policy{"bulk=clearnet": devp2p.OnlyOnion, "gossip=onion": devp2p.Clearnet} {
		if _, err := ParseRules(text, policy); err == nil || !strings.Contains(err.Error(), "policy "+string(policy)) {
			t.Errorf("%q with policy %s: %v", text, policy, err)
		}
	}
}

// waysOf says how peers are reached, for tests.
type waysOf struct {
	mu sync.Mutex
	by map[enode.ID]bool // guarded by mu: true: by the onion
}

func (w *waysOf) set(id enode.ID, onion bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = make(map[enode.ID]bool)
	}
	w.by[id] = onion
}

func (w *waysOf) of(id enode.ID) (devp2p.Route, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	onion, ok := w.by[id]
	return devp2p.Route{Onion: onion}, ok
}

// barred returns how many messages of a class the rules kept back.
func barred(n *Node, class string) uint64 {
	for _, r := range n.Status().Rules {
		if r.Class == class {
			return r.Barred
		}
	}
	return 0
}

// TestRulesOfGossip: with gossip by onions only, a peer that is reached by its address is told of
// no transaction, gets none, and gives none. One whose way is not known yet is told later.
func TestRulesOfGossip(t *testing.T) {
	var w waysOf
	rules, err := ParseRules("gossip=onion", devp2p.PreferOnion)
	if err != nil {
		t.Fatal(err)
	}
	n := newTestNode(t, Config{Chain: chainOf(t), Rules: rules, RouteOf: w.of})
	onion, address, unknown := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69)), connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69)), connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	w.set(onion.id, true)
	w.set(address.id, false)

	bad := signedTx(testKey, 81, 0)
	address.send(eth.TransactionsMsg, types.Transactions{bad})
	address.send(eth.NewPooledTransactionHashesMsg, eth.NewPooledTransactionHashesPacket71{Types: []byte{2}, Sizes: []uint32{uint32(bad.Size())}, Hashes: []common.Hash{bad.Hash()}})
	eventually(t, "both are kept back", func() bool { return barred(n, "transactions") == 1 && barred(n, "announcements") == 1 })
	if n.pool.Stats().Count != 0 {
		t.Error("a transaction came by an address")
	}

	tx := signedTx(testKey, 80, 0)
	onion.send(eth.TransactionsMsg, types.Transactions{tx})
	eventually(t, "the transaction is in the pool", func() bool { return n.pool.Get(tx.Hash()) != nil })
	address.send(eth.GetPooledTransactionsMsg, eth.GetPooledTransactionsPacket{RequestId: 7, GetPooledTransactionsRequest: []common.Hash{tx.Hash()}})
	var answer eth.PooledTransactionsRLPPacket
	for answer.RequestId == 0 {
		switch m := wait(t, address.in, "the answer"); m.Code {
		case eth.TransactionsMsg, eth.NewPooledTransactionHashesMsg:
			t.Error("a peer with an address is told of a transaction")
		case eth.PooledTransactionsMsg:
			if err := m.Decode(&answer); err != nil {
				t.Fatal(err)
			}
		}
	}
	if answer.RequestId != 7 || len(answer.PooledTransactionsRLPResponse) != 0 {
		t.Errorf("a peer with an address gets %d transactions", len(answer.PooledTransactionsRLPResponse))
	}

	w.set(unknown.id, true)
	next := signedTx(testKey, 82, 0)
	onion.send(eth.TransactionsMsg, types.Transactions{next})
	got := make(map[common.Hash]bool)
	for len(got) < 2 {
		switch m := wait(t, unknown.in, "a transaction"); m.Code {
		case eth.TransactionsMsg:
			var txs []*types.Transaction
			if err := m.Decode(&txs); err != nil {
				t.Fatal(err)
			}
			for _, tx := range txs {
				got[tx.Hash()] = true
			}
		case eth.NewPooledTransactionHashesMsg:
			var a eth.NewPooledTransactionHashesPacket71
			if err := m.Decode(&a); err != nil {
				t.Fatal(err)
			}
			for _, h := range a.Hashes {
				got[h] = true
			}
		}
	}
	if !got[tx.Hash()] || !got[next.Hash()] {
		t.Error("a peer whose way was not known at first is not told of all")
	}
}

// TestRulesOfRequests: with bulk by addresses only, bodies are asked from such a peer, and given to
// no other. Headers, which go by onions here, are asked from the onion that can check the bodies.
func TestRulesOfRequests(t *testing.T) {
	var w waysOf
	rules, err := ParseRules("headers=onion,bulk=clearnet", devp2p.PreferOnion)
	if err != nil {
		t.Fatal(err)
	}
	n := newTestNode(t, Config{Chain: chainOf(t), Rules: rules, RouteOf: w.of})
	onion, address := connectGeth(t, n, eth.ETH70), connectGeth(t, n, eth.ETH70)
	w.set(onion.id, true)
	w.set(address.id, false)
	n.wakeHead()
	eventually(t, "the node knows the newest block", func() bool { return n.head.Load() != nil })
	if all := n.witnesses(); len(all) != 1 || all[0].id != onion.id {
		t.Errorf("%d peers tell of headers", len(all))
	}
	q := &query{class: bodies, hashes: []common.Hash{onion.chain.GetCanonicalHash(40)}}
	for range 4 * explore { // some choices are random
		if p := n.choose(q, &peer{}, nil); p == nil || p.id != address.id {
			t.Fatal("bodies are asked from a peer with an onion")
		}
	}
	if got, err := n.mined(t.Context(), q.hashes[0]); err != nil || len(got) != 1 {
		t.Errorf("%d transactions, %v", len(got), err)
	}
	for _, g := range []*gethPeer{onion, address} {
		sink := make(chan *eth.Response, 1)
		if _, err := g.peer.RequestBodies(q.hashes, sink); err != nil {
			t.Fatal(err)
		}
		r := wait(t, sink, "an answer")
		r.Done <- nil
		if roots := r.Meta.(eth.BlockBodyHashes).TransactionRoots; g == onion && len(roots) != 0 {
			t.Error("a peer with an onion gets bodies")
		}
	}
	if barred(n, "bodies") != 1 {
		t.Errorf("%d requests were kept back", barred(n, "bodies"))
	}
	var p *peer
	for _, x := range n.list() {
		if x.id == onion.id {
			p = x
		}
	}
	if _, err := n.ask(t.Context(), p, q); err != errBarred {
		t.Errorf("a body was asked from a peer with an onion: %v", err)
	}
}
