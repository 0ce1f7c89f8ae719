package ethnode

import (
	"testing"

	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
)

// TestAllLate: a connection that stalls while a peer has as many requests as it may have makes
// all its answers late, and none of them is a fault.
func TestAllLate(t *testing.T) {
	n := New(Config{Chain: chainOf(t)})
	connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	p := n.list()[0]
	for id := range uint64(maxAsked) {
		w := &pending{&query{class: headers, headers: &eth.GetBlockHeadersRequest{Amount: 1}}, make(chan *answer, 1)}
		p.mu.Lock()
		p.asked[id] = w
		p.mu.Unlock()
		p.forget(id, w)
	}
	for id := range uint64(maxAsked + 1) {
		raw, err := rlp.EncodeToBytes([]any{id, []uint{}})
		if err != nil {
			t.Fatal(err)
		}
		if w, _, err := n.waiting(p, raw, eth.BlockHeadersMsg); w != nil || (err == nil) != (id < maxAsked) {
			t.Errorf("answer %d: %v", id, err)
		}
	}
}
