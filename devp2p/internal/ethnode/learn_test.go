package ethnode

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
)

// TestForeignersLeave: the peers of other chains that came before the chain was decided are sent
// away when it is.
func TestForeignersLeave(t *testing.T) {
	var sc scores
	n := New(Config{Score: sc.add})
	foreign := goodStatus(t, eth.ETH69)
	foreign.Genesis = common.Hash{9}
	p := connectRaw(t, n, eth.ETH69, "x", foreign)
	for range electionSize {
		connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	}
	p.ended(p2p.DiscUselessPeer)
	if !sc.has(p.id, Foreign) {
		t.Error("no event")
	}
	if got := len(n.list()); got != electionSize {
		t.Errorf("%d peers", got)
	}
}
