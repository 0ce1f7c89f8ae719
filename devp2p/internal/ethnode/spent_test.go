package ethnode

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// branch returns headers that follow a parent, newest first, as Agreed does.
func branch(parent common.Hash, from, count int, extra byte) (all []*types.Header) {
	for i := range count {
		h := &types.Header{Number: big.NewInt(int64(from + i)), ParentHash: parent, Difficulty: new(big.Int), Extra: []byte{extra}}
		all = append([]*types.Header{h}, all...)
		parent = h.Hash()
	}
	return all
}

// TestSpent: nonces count as used as long as the newest block that peers agree on comes after those that used them.
func TestSpent(t *testing.T) {
	var s spent
	account := common.Address{1}
	trunk := branch(common.Hash{}, 1, 3, 0)
	lie := branch(trunk[1].Hash(), 3, 1, 1) // beside the third block
	for i, h := range []*types.Header{trunk[2], trunk[1], lie[0], trunk[0]} {
		s.add(h.Hash(), h.ParentHash, map[common.Address]uint64{account: []uint64{5, 7, 100, 6}[i]})
	}
	for name, c := range map[string]struct {
		newest []*types.Header
		want   uint64
	}{
		"the trunk":               {trunk, 7},
		"the lie":                 {lie, 100},
		"after the trunk":         {branch(trunk[0].Hash(), 4, 1, 0), 0}, // nobody has read that block
		"before one that is read": {append(branch(trunk[0].Hash(), 4, 1, 0), trunk...), 7},
		"another chain":           {branch(common.Hash{9}, 1, 3, 9), 0},
	} {
		if got := s.next(c.newest)[account]; got != c.want {
			t.Errorf("%s: nonce %d, want %d", name, got, c.want)
		}
	}
}

// TestSpentBounds: what is remembered of blocks has bounds, and the newest stays.
func TestSpentBounds(t *testing.T) {
	many := make(map[common.Address]uint64)
	for i := range maxSenders {
		many[common.Address{byte(i), byte(i >> 8)}] = 1
	}
	for _, next := range []map[common.Address]uint64{nil, many} {
		var s spent
		headers := branch(common.Hash{}, 1, 2*maxLooked, 0)
		for i := len(headers) - 1; i >= 0; i-- {
			s.add(headers[i].Hash(), headers[i].ParentHash, next)
			s.add(headers[i].Hash(), headers[i].ParentHash, next) // twice is once
		}
		if len(s.blocks) > maxLooked || len(s.order) != len(s.blocks) || s.size > maxSpent || s.size != len(s.blocks)*len(next) {
			t.Errorf("%d blocks of %d, %d accounts", len(s.blocks), len(s.order), s.size)
		}
		if len(s.next(headers)) != len(next) {
			t.Error("the newest block was forgotten")
		}
	}
}

// TestUsed: signatures of a block cost no more than a bound allows.
func TestUsed(t *testing.T) {
	n := New(Config{Chain: chainOf(t)})
	last := signedTx(testKey, 1<<64-2, 0)
	next := n.used([]*types.Transaction{signedTx(testKey, 3, 0), last, signedTx(testKey, 4, 0), types.NewTx(&types.DynamicFeeTx{Nonce: 9})})
	if len(next) != 1 || next[testAddr] != 1<<64-1 {
		t.Errorf("%v", next)
	}
	txs := make([]*types.Transaction, maxSenders+1)
	for i := range txs {
		txs[i] = types.NewTx(&types.DynamicFeeTx{}) // without a signature
	}
	txs[maxSenders] = last
	if next := n.used(txs); len(next) != 0 {
		t.Errorf("beyond the bound: %v", next)
	}
	if next := New(Config{}).used(txs); next != nil {
		t.Errorf("without a chain: %v", next)
	}
}

// TestDropUsed: a node of the user tells which nonces were used, for each transaction when it is some minutes old,
// and again; what it told before an error counts.
func TestDropUsed(t *testing.T) {
	var asked [][]common.Address
	var fail error
	free := map[common.Address]uint64{}
	n := New(Config{Chain: chainOf(t), Nonces: func(_ context.Context, all []common.Address) (map[common.Address]uint64, error) {
		asked = append(asked, all)
		return free, fail
	}})
	other, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	old, mine, theirs := signedTx(testKey, 4, 0), signedTx(testKey, 5, 0), signedTx(other, 0, 0)
	for _, tx := range []*types.Transaction{old, mine, theirs} {
		addTx(t, n, tx)
	}
	now := time.Now()
	if n.dropUsed(t.Context(), now); len(asked) != 0 {
		t.Errorf("asked at once for %v", asked)
	}
	now = now.Add(askedEach)
	if n.dropUsed(t.Context(), now); len(asked) != 1 || len(asked[0]) != 2 || n.pool.Stats().Count != 3 {
		t.Fatalf("asked for %v, %+v", asked, n.pool.Stats())
	}
	if n.dropUsed(t.Context(), now.Add(askedEach-time.Second)); len(asked) != 1 {
		t.Error("asked too soon")
	}
	free[testAddr], fail = 5, errors.New("the node ended")
	if n.dropUsed(t.Context(), now.Add(askedEach)); n.pool.Get(old.Hash()) != nil || n.pool.Get(mine.Hash()) == nil || n.pool.Get(theirs.Hash()) == nil {
		t.Errorf("%+v", n.pool.Stats())
	}
	for i := range maxAskNonces + 1 {
		key, err := crypto.ToECDSA(common.LeftPadBytes([]byte{1, byte(i >> 8), byte(i)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		addTx(t, n, signedTx(key, 0, 0))
	}
	asked = nil
	n.dropUsed(t.Context(), now.Add(3*askedEach))
	n.dropUsed(t.Context(), now.Add(3*askedEach))
	if len(asked) != 2 || len(asked[0]) != maxAskNonces || len(asked[1]) != 3 { // of 257 and two
		t.Errorf("%d questions", len(asked))
	}
	New(Config{}).dropUsed(t.Context(), now) // nobody to ask
}
