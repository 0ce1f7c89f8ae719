package reads

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
)

// hash reads the parameter of a method about a transaction.
func hash(params json.RawMessage) (h common.Hash, err error) {
	all, err := list(params, 1, 1)
	if err != nil {
		return h, err
	}
	return h, read(all[0], "the hash of the transaction", &h)
}

// look asks for what the chain has of a transaction. For one that this node was asked to send, it is
// null as long as nobody shows that it was mined, also if nobody can be asked: an error would have
// the wallet tell its user that sending failed, and the user send again. The note says why.
func (m *methods) look(ctx context.Context, method, member string, h common.Hash) (json.RawMessage, map[string]string, error) {
	_, from, st, why, own := m.node.Own(h)
	note := map[string]string{"state": st}
	if why != "" {
		note["why"] = why
	}
	if !own {
		note = nil
	}
	if m.up == nil {
		if !own {
			return nil, nil, errNoUpstream(method)
		}
		note["receipt"] = "nobody is asked whether it was mined: name a node by --rpc-upstream"
		return null, note, nil
	}
	key := txKey(h)
	if own {
		key = keyOf(from)
	}
	raw, err := m.pass(ctx, key, object(member, h), method, h)
	if err != nil && own {
		note["receipt"] = err.Error()
		return null, note, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if !isNull(raw) {
		note = nil
	}
	return raw, note, nil
}

func noted(v any, note map[string]string) rpcserver.Result {
	r := rpcserver.Result{Value: v}
	if note != nil {
		r.Note = note
	}
	return r
}

func (m *methods) receipt(ctx context.Context, params json.RawMessage) (rpcserver.Result, error) {
	h, err := hash(params)
	if err != nil {
		return rpcserver.Result{}, err
	}
	raw, note, err := m.look(ctx, "eth_getTransactionReceipt", "transactionHash", h)
	if err != nil {
		return rpcserver.Result{}, err
	}
	return noted(raw, note), nil
}

// transaction is a transaction by its hash. This node's own one is there before it was mined, too.
func (m *methods) transaction(ctx context.Context, params json.RawMessage) (rpcserver.Result, error) {
	h, err := hash(params)
	if err != nil {
		return rpcserver.Result{}, err
	}
	raw, note, err := m.look(ctx, "eth_getTransactionByHash", "hash", h)
	if err != nil {
		return rpcserver.Result{}, err
	}
	if tx, from, _, _, own := m.node.Own(h); own && isNull(raw) {
		if raw, err = waiting(tx, from); err != nil {
			return rpcserver.Result{}, err
		}
	}
	return noted(raw, note), nil
}

// waiting is a transaction without a block, as wallets read it.
func waiting(tx *types.Transaction, from common.Address) (json.RawMessage, error) {
	raw, err := tx.MarshalJSON()
	if err != nil {
		return nil, refused("the transaction cannot be shown")
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, refused("the transaction cannot be shown")
	}
	for _, blobs := range []string{"blobs", "commitments", "proofs", "version"} {
		delete(all, blobs)
	}
	if all["from"], err = json.Marshal(from); err != nil {
		return nil, refused("the transaction cannot be shown")
	}
	for _, of := range []string{"blockHash", "blockNumber", "transactionIndex"} {
		all[of] = null
	}
	if isNull(all["gasPrice"]) {
		all["gasPrice"] = all["maxFeePerGas"]
	}
	return json.Marshal(all)
}
