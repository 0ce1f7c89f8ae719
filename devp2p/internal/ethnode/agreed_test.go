package ethnode

import (
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
)

// row makes headers that belong to each other: numbers from first on, with a mark from a number on.
func row(first, last, fork uint64, mark byte) (all []*types.Header) {
	var parent common.Hash
	for n := first; n <= last; n++ {
		h := &types.Header{Number: new(big.Int).SetUint64(n), ParentHash: parent, Difficulty: new(big.Int)}
		if n >= fork {
			h.Extra = []byte{mark}
		}
		parent = h.Hash()
		all = append(all, h)
	}
	return all
}

// TestMajority: a header counts that more than half of the answers have.
func TestMajority(t *testing.T) {
	honest, behind, liar := row(5, 20, 99, 0), row(5, 18, 99, 0), row(5, 30, 12, 1)
	none := []*types.Header{}
	for name, c := range map[string]struct {
		answers [][]*types.Header
		want    uint64 // 0: none
		liar    bool
	}{
		"one":                 {[][]*types.Header{honest}, 20, false},
		"two agree":           {[][]*types.Header{honest, honest}, 20, false},
		"one is behind":       {[][]*types.Header{honest, behind}, 18, false},
		"one of two lies":     {[][]*types.Header{honest, liar}, 11, false},
		"one of three lies":   {[][]*types.Header{liar, honest, behind}, 18, false},
		"two of three lie":    {[][]*types.Header{liar, liar, honest}, 30, true},
		"two of five lie":     {[][]*types.Header{liar, liar, honest, honest, behind}, 18, false},
		"one has nothing":     {[][]*types.Header{honest, none}, 0, false},
		"two of three do":     {[][]*types.Header{honest, none, honest}, 20, false},
		"nobody has":          {[][]*types.Header{none, none}, 0, false},
		"nobody is there":     {nil, 0, false},
		"half is no majority": {[][]*types.Header{honest, honest, none, none}, 0, false},
	} {
		got := majority(c.answers)
		if c.want == 0 {
			if got != nil {
				t.Errorf("%s: %d", name, got[0].Number)
			}
			continue
		}
		if len(got) != agreeBack+1 || got[0].Number.Uint64() != c.want {
			t.Errorf("%s: %d headers", name, len(got))
			continue
		}
		for i, h := range got {
			if h.Number.Uint64() != c.want-uint64(i) || i > 0 && got[i-1].ParentHash != h.Hash() {
				t.Errorf("%s: header %d is %d", name, i, h.Number)
			}
		}
		if (len(got[0].Extra) > 0) != c.liar {
			t.Errorf("%s: the header of the wrong ones", name)
		}
	}
	if got := majority([][]*types.Header{row(0, 1, 9, 0)}); len(got) != 2 {
		t.Errorf("a short chain: %d headers", len(got))
	}
}

// answerHeaders has a peer answer each request for headers with a row, from the number that was
// asked for on.
func (p *rawPeer) answerHeaders(all []*types.Header) {
	go func() {
		for m := range p.in {
			if m.Code != eth.GetBlockHeadersMsg {
				continue
			}
			var q eth.GetBlockHeadersPacket
			if err := m.Decode(&q); err != nil {
				p.t.Error(err)
				return
			}
			a := []*types.Header{}
			for _, h := range all {
				if q.Origin.Hash != (common.Hash{}) && h.Hash() == q.Origin.Hash || q.Origin.Hash == (common.Hash{}) && h.Number.Uint64() >= q.Origin.Number {
					if a = append(a, h); uint64(len(a)) == q.Amount {
						break
					}
				}
			}
			if p2p.Send(p.rw, eth.BlockHeadersMsg, []any{q.RequestId, a}) != nil {
				return // the connection has ended
			}
		}
	}()
}

// TestAgreed asks peers that are there: blocks count that they did not tell of by themselves, and a
// peer whose headers do not belong together is sent away.
func TestAgreed(t *testing.T) {
	var sc scores
	n := New(Config{Score: sc.add})
	if _, _, err := n.Agreed(t.Context()); !errors.Is(err, errNoHead) {
		t.Errorf("no peer: %v", err)
	}
	honest := row(0, 40, 99, 0)
	n.head.Store(&head{header: honest[10], hash: honest[10].Hash()})
	if _, _, err := n.Agreed(t.Context()); err == nil {
		t.Error("nobody can be asked")
	}
	var broken *rawPeer
	for i := range 4 {
		p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
		if i > 0 {
			p.answerHeaders(honest)
			continue
		}
		bad := slices.Clone(honest)
		bad[20] = &types.Header{Number: big.NewInt(20), Difficulty: new(big.Int)}
		p.answerHeaders(bad)
		broken = p
	}
	headers, peers, err := n.Agreed(t.Context())
	if err != nil || peers != 3 || len(headers) != agreeBack+1 || headers[0].Hash() != honest[40].Hash() {
		t.Errorf("%d headers of %d peers, %v", len(headers), peers, err)
	}
	broken.ended(p2p.DiscSubprotocolError)
	again, _, err := n.Agreed(t.Context())
	if err != nil || &again[0] != &headers[0] {
		t.Errorf("peers were asked again at once: %v", err)
	}
}

// TestAgreedAfterLie: a block that was agreed on, by a liar alone, and has a number that the chain will not reach
// for years, is given up when others are there, which know nothing of such blocks.
func TestAgreedAfterLie(t *testing.T) {
	n := New(Config{})
	lies, honest := row(1<<40, 1<<40+5, 1<<40+9, 0), row(0, 40, 99, 0)
	n.head.Store(&head{header: lies[4], hash: lies[4].Hash()})
	connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69)).answerHeaders(lies)
	if headers, peers, err := n.Agreed(t.Context()); err != nil || peers != 1 || headers[0].Hash() != lies[5].Hash() {
		t.Fatalf("%d headers of %d peers, %v", len(headers), peers, err)
	}
	for range 2 {
		connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69)).answerHeaders(honest)
	}
	n.head.Store(&head{header: honest[30], hash: honest[30].Hash()}) // as watchHead does: it is the median
	n.agreed.mu.Lock()
	n.agreed.at = time.Time{} // some seconds later
	n.agreed.mu.Unlock()
	headers, peers, err := n.Agreed(t.Context())
	if err != nil || peers != 2 || headers[0].Hash() != honest[40].Hash() { // the liar is sent away
		t.Fatalf("%d headers of %d peers, %v", len(headers), peers, err)
	}
	if got := n.newest(); got.Hash() != honest[40].Hash() {
		t.Errorf("the newest block has the number %d", got.Number)
	}
}
