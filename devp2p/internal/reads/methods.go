package reads

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
)

// A Node is this machine's own part of the answers.
type Node interface {
	ChainID() (uint64, bool) // false: not known yet
	// Agreed returns the newest headers that most of the asked peers have, newest first and at
	// least one, and how many peers were asked.
	Agreed(context.Context) ([]*types.Header, int, error)
	// Own returns a transaction that this node was asked to send, and its state in words.
	Own(common.Hash) (tx *types.Transaction, from common.Address, state, why string, ok bool)
	// Next returns the first nonce from n on that none of the node's own transactions of an
	// account has.
	Next(from common.Address, n uint64) uint64
}

// A Config says where answers come from.
type Config struct {
	Upstream *Address // nil: there is none
	Dial     Dialer   // through Tor; needed unless the upstream is local
	Require  bool     // nonces and balances without a proof are refused
	Roots    *x509.CertPool

	ahead time.Duration // for tests: in place of aheadWait
}

type methods struct {
	node    Node
	up      *upstream // nil: none
	require bool
	ahead   time.Duration // between two questions to the peers for a block that they may soon have
}

// result is a result with a note beside it, or none.
func result(v any, note string) rpcserver.Result {
	r := rpcserver.Result{Value: v}
	if note != "" {
		r.Note = map[string]string{"checked": note}
	}
	return r
}

var null = json.RawMessage("null")

// errNoUpstream is the answer of methods that need an upstream.
func errNoUpstream(method string) error {
	return refused("%s needs a node that has the chain's state, and this node has none: name one by --rpc-upstream (the IPC socket of your geth, an https URL, or an onion)", method)
}

// Methods returns the methods that read the chain, and what ends their connections.
func Methods(n Node, c Config) (all map[string]rpcserver.Method, closeAll func()) {
	m := &methods{node: n, require: c.Require, ahead: cmp.Or(c.ahead, aheadWait)}
	closeAll = func() {}
	if c.Upstream != nil {
		m.up = &upstream{address: c.Upstream, chain: n.ChainID, calls: make(chan struct{}, maxCalls),
			all: accounts{address: c.Upstream, dial: c.Dial, roots: c.Roots}}
		closeAll = m.up.all.close
	}
	all = map[string]rpcserver.Method{
		// Nobody has keys here.
		"eth_accounts": func(context.Context, json.RawMessage) (rpcserver.Result, error) {
			return rpcserver.Result{Value: []string{}}, nil
		},
		"eth_getTransactionReceipt": m.receipt,
		"eth_getTransactionByHash":  m.transaction,
	}
	for name, run := range map[string]func(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error){
		"eth_getTransactionCount":  m.count,
		"eth_getBalance":           m.balance,
		"eth_getCode":              m.ofAccount("eth_getCode", data),
		"eth_call":                 m.contract("eth_call", data),
		"eth_estimateGas":          m.contract("eth_estimateGas", number),
		"eth_gasPrice":             m.plain("eth_gasPrice", amount),
		"eth_maxPriorityFeePerGas": m.plain("eth_maxPriorityFeePerGas", amount),
		"eth_blobBaseFee":          m.plain("eth_blobBaseFee", amount),
		"eth_syncing":              m.plain("eth_syncing", syncing),
		"eth_feeHistory":           m.fees,
		"eth_getBlockByNumber":     m.blockByNumber,
		"eth_getBlockByHash":       m.blockByHash,
	} {
		all[name] = func(ctx context.Context, params json.RawMessage) (rpcserver.Result, error) {
			if m.up == nil {
				return rpcserver.Result{}, errNoUpstream(name)
			}
			l, err := list(params, 0, 5)
			if err != nil {
				return rpcserver.Result{}, err
			}
			return run(ctx, l)
		}
	}
	if m.up != nil { // the number belongs to the receipts, which come from there, too
		number := m.plain("eth_blockNumber", number)
		all["eth_blockNumber"] = func(ctx context.Context, _ json.RawMessage) (rpcserver.Result, error) { return number(ctx, nil) }
	}
	return all, closeAll
}

// pass asks the upstream, and checks its answer.
func (m *methods) pass(ctx context.Context, key string, c check, method string, params ...any) (json.RawMessage, error) {
	raw, err := m.up.call(ctx, key, method, params...)
	if err != nil {
		return nil, err
	}
	if wrong := c(raw); wrong != "" {
		return nil, m.up.lie(method + ": " + wrong)
	}
	return raw, nil
}

// plain is a method without parameters.
func (m *methods) plain(method string, c check) func(context.Context, []json.RawMessage) (rpcserver.Result, error) {
	return func(ctx context.Context, _ []json.RawMessage) (rpcserver.Result, error) {
		raw, err := m.pass(ctx, chainKey, c, method)
		return result(raw, ""), err
	}
}

func (m *methods) fees(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
	if len(all) < 2 {
		return rpcserver.Result{}, bad("the method takes a number of blocks, the newest block, and percentiles")
	}
	params := make([]any, len(all))
	for i, p := range all {
		params[i] = p
	}
	raw, err := m.pass(ctx, chainKey, feeHistory, "eth_feeHistory", params...)
	return result(raw, ""), err
}

func (m *methods) blockByNumber(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
	if len(all) < 1 {
		return rpcserver.Result{}, bad("the method takes a block, and whether its transactions are wanted")
	}
	at, err := block(all, 0)
	if err != nil {
		return rpcserver.Result{}, err
	}
	full, err := whole(all)
	if err != nil {
		return rpcserver.Result{}, err
	}
	raw, err := m.pass(ctx, chainKey, numbered(at), "eth_getBlockByNumber", at, full)
	return result(raw, ""), err
}

func (m *methods) blockByHash(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
	var h common.Hash
	if len(all) < 1 {
		return rpcserver.Result{}, bad("the method takes the hash of a block, and whether its transactions are wanted")
	}
	if err := read(all[0], "the hash of the block", &h); err != nil {
		return rpcserver.Result{}, err
	}
	full, err := whole(all)
	if err != nil {
		return rpcserver.Result{}, err
	}
	raw, err := m.pass(ctx, chainKey, object("hash", h), "eth_getBlockByHash", h, full)
	return result(raw, ""), err
}

// whole reads whether a block's transactions are wanted, and not only their hashes.
func whole(all []json.RawMessage) (full bool, err error) {
	if len(all) > 1 {
		err = read(all[1], "the second parameter, which is true or false,", &full)
	}
	return full, err
}

// accountAt reads the parameters of a method about an account.
func accountAt(all []json.RawMessage) (a common.Address, at any, err error) {
	if len(all) < 1 || len(all) > 2 {
		return a, nil, bad("the method takes an address and a block")
	}
	if err := read(all[0], "the address", &a); err != nil {
		return a, nil, err
	}
	at, err = block(all, 1)
	return a, at, err
}

// ofAccount is a method about an account without a proof.
func (m *methods) ofAccount(method string, c check) func(context.Context, []json.RawMessage) (rpcserver.Result, error) {
	return func(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
		a, at, err := accountAt(all)
		if err != nil {
			return rpcserver.Result{}, err
		}
		raw, err := m.pass(ctx, keyOf(a), c, method, a, at)
		return result(raw, ""), err
	}
}

// proved returns an account's state with its proof: at the newest block, or at one that is new. MetaMask asks
// for the newest block's number, and then for the state at that number. Without a proof, it returns nil, and a note
// that says so; or an error, if a proof is required.
func (m *methods) proved(ctx context.Context, a common.Address, at any) (*state, string, error) {
	if m.up.address.Local() {
		return nil, "", nil // the user's own node
	}
	why := "the block is not the newest one"
	number, ok := provable(at)
	if ok {
		s, note, err := m.state(ctx, a, number)
		if e := (*errUnproved)(nil); !errors.As(err, &e) {
			return s, note, err
		}
		why = err.Error()
	}
	if m.require {
		return nil, "", refused("there is no proof of the answer, and --rpc-proofs require wants one: %s", why)
	}
	return nil, "not proved: " + why, nil
}

// provable reports whether the state at a block can be proved: at the newest one, which has no number here, or at
// one with a number.
func provable(at any) (number *big.Int, ok bool) {
	tag, _ := at.(string)
	if tag == "latest" || tag == "pending" {
		return nil, true
	}
	n, err := hexutil.DecodeUint64(tag)
	return new(big.Int).SetUint64(n), err == nil
}

// count is the nonce of an account's next transaction. Those that this node was asked to send
// count for "pending": the upstream does not know them.
func (m *methods) count(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
	a, at, err := accountAt(all)
	if err != nil {
		return rpcserver.Result{}, err
	}
	s, note, err := m.proved(ctx, a, at)
	if err != nil {
		return rpcserver.Result{}, err
	}
	var n uint64
	if s != nil {
		n = s.nonce
	} else {
		raw, err := m.pass(ctx, keyOf(a), number, "eth_getTransactionCount", a, at)
		if err != nil {
			return rpcserver.Result{}, err
		}
		var got hexutil.Uint64
		if err := json.Unmarshal(raw, &got); err != nil {
			return rpcserver.Result{}, m.up.lie("the nonce is no number")
		}
		n = uint64(got)
	}
	if at == "pending" {
		n = m.node.Next(a, n)
	}
	return result(hexutil.Uint64(n), note), nil
}

func (m *methods) balance(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
	a, at, err := accountAt(all)
	if err != nil {
		return rpcserver.Result{}, err
	}
	s, note, err := m.proved(ctx, a, at)
	if err != nil {
		return rpcserver.Result{}, err
	}
	if s != nil {
		return result((*hexutil.Big)(s.balance), note), nil
	}
	raw, err := m.pass(ctx, keyOf(a), amount, "eth_getBalance", a, at)
	return result(raw, note), err
}

// contract is a method that runs a contract, or tries a transaction.
func (m *methods) contract(method string, c check) func(context.Context, []json.RawMessage) (rpcserver.Result, error) {
	return func(ctx context.Context, all []json.RawMessage) (rpcserver.Result, error) {
		if len(all) < 1 || len(all) > 4 {
			return rpcserver.Result{}, bad("the method takes a call and a block")
		}
		key, err := callKey(all[0])
		if err != nil {
			return rpcserver.Result{}, err
		}
		params := []any{all[0]}
		if len(all) > 1 {
			at, err := block(all, 1)
			if err != nil {
				return rpcserver.Result{}, err
			}
			params = append(params, at)
		}
		for _, p := range all[min(2, len(all)):] {
			params = append(params, p) // changes of the state for this call
		}
		raw, err := m.pass(ctx, key, c, method, params...)
		return result(raw, ""), err
	}
}
