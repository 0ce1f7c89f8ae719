package pool

import (
	"errors"
	"fmt"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/ethereum/go-ethereum/params"
)

// Sizes of encoded transactions, in bytes. They are go-ethereum's, so that nothing is
// relayed that its pools refuse by size.
const (
	MaxSize     = 128 << 10 // of a transaction without blobs, and of one with blobs, without these
	MaxBlobs    = 6         // blobs of one transaction (EIP-7594)
	maxBlobSize = MaxSize + MaxBlobs*(params.BlobTxFieldElementsPerBlob*params.BlobTxBytesPerFieldElement+
		48+kzg4844.CellProofsPerBlob*48+64)
)

// LargestSize is the size of the largest transaction that the pool may take, in bytes.
const LargestSize = maxBlobSize

// ErrSize says that a transaction is too large.
var ErrSize = errors.New("the transaction is too large")

// accepted are the types of transactions that the node relays.
const accepted = 1<<types.LegacyTxType | 1<<types.AccessListTxType | 1<<types.DynamicFeeTxType |
	1<<types.BlobTxType | 1<<types.SetCodeTxType

// Rules are what transactions are checked by.
type Rules struct {
	Config *params.ChainConfig
	// Head is the newest block as far as the node knows: it decides which forks are
	// active, and bounds the gas of a transaction.
	Head   *types.Header
	MinTip *big.Int // wei for a unit of gas
}

// one bounds the memory and the processors that checks of blobs take: one at a time.
var one sync.Mutex

// CheckProofs reports whether the proofs of a transaction's blobs are right. It takes about
// a tenth of a second for a blob, and some seconds and megabytes more the first time, when
// it loads its tables.
func CheckProofs(tx *types.Transaction) error {
	sidecar := tx.BlobTxSidecar()
	if sidecar == nil {
		return nil
	}
	one.Lock()
	defer one.Unlock()
	if err := kzg4844.VerifyCellProofs(sidecar.Blobs, sidecar.Commitments, sidecar.Proofs); err != nil {
		return fmt.Errorf("%w: %w", txpool.ErrKZGVerificationError, err)
	}
	return nil
}

// Check reports what is wrong with a transaction as far as that shows without state: size,
// type, chain ID, signature, fee caps, gas, and the sidecar of blobs without its proofs.
func (r Rules) Check(tx *types.Transaction) error {
	limit := uint64(MaxSize)
	if tx.Type() == types.BlobTxType {
		limit = maxBlobSize
		if tx.WithoutBlobTxSidecar().Size() > MaxSize {
			return fmt.Errorf("%w: more than %d bytes without its blobs", ErrSize, MaxSize)
		}
	}
	if tx.Size() > limit {
		return fmt.Errorf("%w: %d bytes of %d", ErrSize, tx.Size(), limit)
	}
	signer := types.LatestSigner(r.Config)
	tip := r.MinTip
	if tip == nil {
		tip = new(big.Int)
	}
	err := txpool.ValidateTransaction(tx, r.Head, signer, &txpool.ValidationOptions{
		Config:       r.Config,
		Accept:       accepted,
		MaxSize:      limit,
		MaxBlobCount: MaxBlobs,
		MinTip:       tip,
	})
	if err != nil {
		return err
	}
	if !tx.Protected() {
		return errors.New("the transaction names no chain: it would be valid on every chain (EIP-155)")
	}
	return nil
}
