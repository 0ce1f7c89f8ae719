package reads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
)

// Bounds of a proof: a path in the state's tree has no more nodes than a hash has digits, and a
// node has 16 hashes and some bytes.
const (
	maxNodes    = 65
	maxNodeSize = 1 << 10
)

// nodes are the nodes of a proof by their hashes.
type nodes map[common.Hash][]byte

// Has implements ethdb.KeyValueReader.
func (n nodes) Has(key []byte) (bool, error) { return n[common.BytesToHash(key)] != nil, nil }

// Get implements ethdb.KeyValueReader.
func (n nodes) Get(key []byte) ([]byte, error) {
	if b := n[common.BytesToHash(key)]; b != nil {
		return b, nil
	}
	return nil, errors.New("the proof has no such node")
}

// A state is what the chain says of an account.
type state struct {
	nonce   uint64
	balance *big.Int
}

// prove returns the state of an account that a proof shows under a root. An account that is proved
// to be absent has nonce and balance 0.
func prove(root common.Hash, account common.Address, proof []hexutil.Bytes) (*state, error) {
	if len(proof) > maxNodes {
		return nil, fmt.Errorf("a proof of %d nodes", len(proof))
	}
	db := make(nodes, len(proof))
	for _, n := range proof {
		if len(n) > maxNodeSize {
			return nil, fmt.Errorf("a node of %d bytes in a proof", len(n))
		}
		db[crypto.Keccak256Hash(n)] = n
	}
	if root == types.EmptyRootHash {
		return &state{balance: new(big.Int)}, nil
	}
	leaf, err := trie.VerifyProof(root, crypto.Keccak256(account[:]), db)
	if err != nil {
		return nil, errors.New("the proof does not lead to the state that peers agree on")
	}
	if leaf == nil {
		return &state{balance: new(big.Int)}, nil
	}
	var a types.StateAccount
	if err := rlp.DecodeBytes(leaf, &a); err != nil || a.Balance == nil {
		return nil, errors.New("the proof ends with something else than an account")
	}
	return &state{a.Nonce, a.Balance.ToBig()}, nil
}

// errUnproved says why there is no proof, though nobody lied.
type errUnproved struct{ why string }

func (e *errUnproved) Error() string { return e.why }

// The upstream has a new block some seconds before most peers are known to have it, and a wallet asks for it by
// its number at once.
const (
	aheadBy    = 2                       // blocks for which it is worth waiting
	aheadWait  = 2500 * time.Millisecond // longer than the peers' last answer counts as new
	aheadTries = 2
)

// isAhead reports whether peers may soon have a block, when they have another.
func isAhead(number, newest *big.Int) bool {
	d := new(big.Int).Sub(number, newest)
	return d.Sign() > 0 && d.Cmp(big.NewInt(aheadBy)) <= 0
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state asks the upstream for an account's state with its proof: the newest one, or that of the block with a number,
// if it is one of the newest on which the peers agree. The note says what it was checked
// against. The error is an *errUnproved if peers or the upstream have not what a proof needs.
func (m *methods) state(ctx context.Context, account common.Address, number *big.Int) (*state, string, error) {
	headers, peers, err := m.node.Agreed(ctx)
	for tries := 0; err == nil && number != nil && tries < aheadTries && isAhead(number, headers[0].Number); tries++ {
		if err = wait(ctx, m.ahead); err == nil {
			headers, peers, err = m.node.Agreed(ctx)
		}
	}
	if err != nil {
		return nil, "", &errUnproved{err.Error()}
	}
	var last error = &errUnproved{"the block is none of the newest on which the peers agree"}
	for i, h := range headers {
		if number != nil && h.Number.Cmp(number) != 0 {
			continue
		}
		if number == nil && i != 0 && i != len(headers)-1 {
			continue // the newest, and an older one for an upstream that is behind
		}
		raw, err := m.up.call(ctx, keyOf(account), "eth_getProof", account, []string{}, hexutil.EncodeBig(h.Number))
		if e := (*said)(nil); errors.As(err, &e) {
			last = &errUnproved{"there is no proof: " + e.Error()}
			if e.answer.Code == rpcserver.CodeMethod {
				break
			}
			continue
		}
		if err != nil {
			return nil, "", err
		}
		var p struct {
			AccountProof []hexutil.Bytes `json:"accountProof"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, "", m.up.lie("a proof that cannot be read")
		}
		s, err := prove(h.Root, account, p.AccountProof)
		if err != nil {
			return nil, "", m.up.lie(err.Error())
		}
		return s, fmt.Sprintf("proved by the state of block %d, on which the peers agree that were asked (%d)", h.Number, peers), nil
	}
	return nil, "", last
}
