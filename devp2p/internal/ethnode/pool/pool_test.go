package pool

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

var now = time.Unix(1_700_000_000, 0)

func testConfig() *params.ChainConfig {
	c := *params.MergedTestChainConfig
	return &c
}

func rules() Rules {
	return Rules{Config: testConfig(), Head: &types.Header{
		Number: big.NewInt(1), Difficulty: new(big.Int), Time: 1000, GasLimit: 30_000_000,
	}}
}

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t *testing.T, d types.TxData) *types.Transaction {
	t.Helper()
	return types.MustSignNewTx(key(t), types.LatestSigner(testConfig()), d)
}

func plain(nonce uint64) *types.DynamicFeeTx {
	return &types.DynamicFeeTx{ChainID: testConfig().ChainID, Nonce: nonce, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(1e9), Gas: 21000, To: &common.Address{1}}
}

// TestCheck checks transactions of each type, and what is wrong with others.
func TestCheck(t *testing.T) {
	chain := testConfig().ChainID
	with := func(change func(*types.DynamicFeeTx)) *types.Transaction {
		d := plain(0)
		change(d)
		return sign(t, d)
	}
	auth, err := types.SignSetCode(key(t), types.SetCodeAuthorization{ChainID: *uint256.MustFromBig(chain)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tx := range map[string]*types.Transaction{
		"dynamic":     sign(t, plain(0)),
		"legacy":      sign(t, &types.LegacyTx{GasPrice: big.NewInt(1), Gas: 21000, To: &common.Address{1}}),
		"access list": sign(t, &types.AccessListTx{ChainID: chain, GasPrice: big.NewInt(1), Gas: 21000, To: &common.Address{1}}),
		"set code": sign(t, &types.SetCodeTx{ChainID: uint256.MustFromBig(chain), GasTipCap: uint256.NewInt(1), GasFeeCap: uint256.NewInt(1),
			Gas: 100000, AuthList: []types.SetCodeAuthorization{auth}}),
		"creation": with(func(d *types.DynamicFeeTx) { d.To, d.Gas, d.Data = nil, 100000, []byte{1} }),
	} {
		if err := rules().Check(tx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign := types.MustSignNewTx(key(t), types.LatestSignerForChainID(big.NewInt(77)), &types.DynamicFeeTx{ChainID: big.NewInt(77), Gas: 21000, To: &common.Address{1}})
	for _, test := range []struct {
		name string
		tx   *types.Transaction
		want error // nil: any
	}{
		{"gas", with(func(d *types.DynamicFeeTx) { d.Gas = 20999 }), core.ErrIntrinsicGas},
		{"too much gas", with(func(d *types.DynamicFeeTx) { d.Gas = 30_000_001 }), nil},
		{"tip above fee", with(func(d *types.DynamicFeeTx) { d.GasTipCap = big.NewInt(2e9) }), core.ErrTipAboveFeeCap},
		{"nonce", with(func(d *types.DynamicFeeTx) { d.Nonce = ^uint64(0) }), core.ErrNonceMax},
		{"size", with(func(d *types.DynamicFeeTx) { d.Data, d.Gas = make([]byte, MaxSize), 20_000_000 }), ErrSize},
		{"chain", foreign, nil},
		{"signature", types.NewTx(plain(0)), nil},
		{"no chain", types.MustSignNewTx(key(t), types.HomesteadSigner{}, &types.LegacyTx{GasPrice: big.NewInt(1), Gas: 21000, To: &common.Address{1}}), nil},
	} {
		err := rules().Check(test.tx)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	r := rules()
	r.MinTip = big.NewInt(2)
	if err := r.Check(sign(t, plain(0))); err == nil {
		t.Error("a tip below the least one")
	}
}

// TestBlobs checks the blobs of a transaction by their proofs.
func TestBlobs(t *testing.T) {
	if testing.Short() {
		t.Skip("short: proofs take seconds to make")
	}
	blob := new(kzg4844.Blob)
	blob[1] = 7
	commitment, err := kzg4844.BlobToCommitment(blob)
	if err != nil {
		t.Fatal(err)
	}
	proofs, err := kzg4844.ComputeCellProofs(blob)
	if err != nil {
		t.Fatal(err)
	}
	sidecar := func() *types.BlobTxSidecar {
		return types.NewBlobTxSidecar(types.BlobSidecarVersion1, []kzg4844.Blob{*blob}, []kzg4844.Commitment{commitment}, append([]kzg4844.Proof(nil), proofs...))
	}
	make := func(s *types.BlobTxSidecar) *types.Transaction {
		return sign(t, &types.BlobTx{ChainID: uint256.MustFromBig(testConfig().ChainID), GasTipCap: uint256.NewInt(1), GasFeeCap: uint256.NewInt(1e9),
			Gas: 21000, BlobFeeCap: uint256.NewInt(1), BlobHashes: sidecar().BlobHashes(), Sidecar: s})
	}
	check := func(tx *types.Transaction) error {
		if err := rules().Check(tx); err != nil {
			return err
		}
		return CheckProofs(tx)
	}
	if err := check(make(sidecar())); err != nil {
		t.Error(err)
	}
	if err := check(make(nil)); err == nil {
		t.Error("no sidecar")
	}
	for name, change := range map[string]func(*types.BlobTxSidecar){
		"proof":       func(s *types.BlobTxSidecar) { s.Proofs[3] = s.Proofs[4] },
		"blob":        func(s *types.BlobTxSidecar) { s.Blobs[0][5]++ },
		"fewer":       func(s *types.BlobTxSidecar) { s.Proofs = s.Proofs[:1] },
		"commitment":  func(s *types.BlobTxSidecar) { s.Commitments[0][3]++ },
		"old version": func(s *types.BlobTxSidecar) { s.Version = 0 },
		"no blob":     func(s *types.BlobTxSidecar) { s.Blobs = nil },
	} {
		s := sidecar()
		change(s)
		if err := check(make(s)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestBounds fills a pool from two sources: the flooding one displaces its own.
func TestBounds(t *testing.T) {
	p := New(Limits{Count: 10, Bytes: 10_000})
	honest := sign(t, plain(0))
	if _, err := p.Add(honest, []byte{1}, "honest", now); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Add(honest, []byte{1}, "another", now); !errors.Is(err, ErrKnown) {
		t.Error(err)
	}
	for i := range uint64(100) {
		if _, err := p.Add(sign(t, plain(i)), make([]byte, 100), "flood", now); err != nil {
			t.Fatal(err)
		}
	}
	if s := p.Stats(); s.Count != 10 || s.Bytes != 901 || s.Evicted != 91 {
		t.Errorf("%+v", s)
	}
	if p.Get(honest.Hash()) == nil {
		t.Error("a flood displaces others' transactions")
	}
	if _, err := p.Add(sign(t, plain(0)), make([]byte, 10_001), "x", now); !errors.Is(err, ErrRoom) {
		t.Error(err)
	}
	if _, err := p.Add(sign(t, plain(0)), make([]byte, 9_500), "large", now); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Bytes > 10_000 {
		t.Errorf("%+v", s)
	}
	p.Expire(now.Add(time.Hour))
	if s := p.Stats(); s.Count != 0 || s.Bytes != 0 || len(p.sources) != 0 {
		t.Errorf("after all are old: %+v", s)
	}
}

// TestUsed drops what has a used nonce, of that account alone, and tells accounts one after another.
func TestUsed(t *testing.T) {
	p := New(Limits{})
	one, two := key(t), key(t)
	sign := func(k *ecdsa.PrivateKey, nonce uint64) *types.Transaction {
		return types.MustSignNewTx(k, types.LatestSigner(testConfig()), plain(nonce))
	}
	for _, tx := range []*types.Transaction{sign(one, 3), sign(one, 4), sign(one, 5), sign(two, 3)} {
		if _, err := p.Add(tx, []byte{1}, "peer", now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Add(types.NewTx(plain(0)), []byte{1}, "peer", now); err == nil {
		t.Error("a transaction without a sender")
	}
	p.RemoveUsed(nil)
	p.RemoveUsed(map[common.Address]uint64{crypto.PubkeyToAddress(one.PublicKey): 5})
	if s := p.Stats(); s.Count != 2 || s.Mined != 2 || p.Get(sign(one, 5).Hash()) == nil || p.Get(sign(two, 3).Hash()) == nil {
		t.Errorf("%+v", s)
	}
	if got := p.Senders(9, now.Add(time.Second), 2*time.Second); len(got) != 0 {
		t.Errorf("too early: %v", got)
	}
	first, second, none := p.Senders(1, now.Add(2*time.Second), 2*time.Second), p.Senders(1, now.Add(3*time.Second), 2*time.Second), p.Senders(1, now.Add(3*time.Second), 2*time.Second)
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] || len(none) != 0 {
		t.Errorf("%v, then %v, then %v", first, second, none)
	}
}

// TestKnown adds more hashes than a set has places for.
func TestKnown(t *testing.T) {
	k := NewKnown(1000)
	if k.Has(common.Hash{1}) {
		t.Error("an empty set has a hash")
	}
	hash := func(i int) common.Hash { return common.Hash{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range 10_000 {
		if !k.Add(hash(i)) {
			t.Fatalf("hash %d is not new", i)
		}
		if k.Add(hash(i)) || !k.Has(hash(i)) {
			t.Fatalf("hash %d is forgotten at once", i)
		}
	}
	if len(k.slots) != 1024 {
		t.Errorf("%d places", len(k.slots))
	}
	recent := 0
	for i := 9_500; i < 10_000; i++ {
		if k.Has(hash(i)) {
			recent++
		}
	}
	if recent < 450 {
		t.Errorf("only %d of the last 500 are known", recent)
	}
}
