package reads

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Nonces returns what asks a node of this machine for the first free nonces of accounts. What was answered before an
// error is returned with it. No other node is asked so: it would take a circuit for each account.
func Nonces(a *Address, chain func() (uint64, bool)) func(context.Context, []common.Address) (map[common.Address]uint64, error) {
	if !a.Local() {
		return nil
	}
	m := &methods{up: &upstream{address: a, chain: chain, calls: make(chan struct{}, 1), all: accounts{address: a}}}
	return func(ctx context.Context, all []common.Address) (map[common.Address]uint64, error) {
		next := make(map[common.Address]uint64, len(all))
		for _, account := range all {
			raw, err := m.pass(ctx, chainKey, number, "eth_getTransactionCount", account, "latest")
			if err != nil {
				return next, err
			}
			var n hexutil.Uint64
			if err := json.Unmarshal(raw, &n); err != nil {
				return next, m.up.lie("the nonce is no number")
			}
			next[account] = uint64(n)
		}
		return next, nil
	}
}
