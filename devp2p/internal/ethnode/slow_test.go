package ethnode

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
)

// TestSlowPeers has peers that never answer: a request gets an empty answer in the end, and
// each slow peer loses points.
func TestSlowPeers(t *testing.T) {
	status, chain := goodStatus(t, eth.ETH69), chainOf(t)
	synctest.Test(t, func(t *testing.T) {
		var sc scores
		n := New(Config{Chain: chain, Score: sc.add})
		a := connectRaw(t, n, eth.ETH69, "slow", status)
		b := connectRaw(t, n, eth.ETH69, "slow", status)
		client := connectRaw(t, n, eth.ETH69, "client", status)
		began := time.Now()
		client.send(eth.GetBlockHeadersMsg, []any{uint(3), []any{uint(5), uint(1), uint(0), false}})
		var answer eth.BlockHeadersPacket
		client.expect(eth.BlockHeadersMsg, &answer)
		if took := time.Since(began); answer.List.Len() != 0 || took != 2*answerTime {
			t.Errorf("%d headers after %v", answer.List.Len(), took)
		}
		if !sc.has(a.id, Slow) || !sc.has(b.id, Slow) {
			t.Errorf("no event: %v", sc.all)
		}
		for _, p := range []*rawPeer{a, b, client} {
			p.rw.Close()
			<-p.done
		}
	})
}

// TestNoStatus has a peer that says nothing after the hello.
func TestNoStatus(t *testing.T) {
	chain := chainOf(t)
	synctest.Test(t, func(t *testing.T) {
		p := connectRaw(t, New(Config{Chain: chain}), eth.ETH69, "x", nil)
		if err := <-p.done; err != error(p2p.DiscReadTimeout) {
			t.Error(err)
		}
	})
}

// TestMemoryOfPeers connects 200 peers that announce as much as they may.
func TestMemoryOfPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures memory")
	}
	const peers = 200
	n := New(Config{Chain: chainOf(t)})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := heap()
	for i := range peers {
		p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
		a := eth.NewPooledTransactionHashesPacket71{}
		for j := range maxPeerOffer {
			a.Types, a.Sizes = append(a.Types, 2), append(a.Sizes, 200)
			a.Hashes = append(a.Hashes, common.Hash{byte(i), byte(j), byte(j >> 8)})
		}
		p.send(eth.NewPooledTransactionHashesMsg, a)
	}
	each := (heap() - before) / peers
	t.Logf("%d kB a peer, with the test's own end", each/1000)
	if each > 300_000 {
		t.Errorf("%d bytes a peer", each)
	}
}
