package rpcserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// A Node is what the methods ask.
type Node interface {
	ChainID() (uint64, bool) // false: not known yet
	NetworkID() (uint64, bool)
	// BlockNumber returns the newest block that peers have.
	BlockNumber(context.Context) (uint64, bool)
	PeerCount() int
	ClientVersion() string
	// Send takes a transaction for private broadcast. The state says in words what
	// happens to it, the reason why. An error is told to the caller.
	Send(*types.Transaction) (state, why string, err error)
	// Sent returns the state of a transaction that Send took.
	Sent(common.Hash) (any, bool)
}

// Methods returns the methods that a node without state has.
func Methods(n Node) map[string]Method {
	number := func(get func(context.Context) (uint64, bool), what string) Method {
		return func(ctx context.Context, _ json.RawMessage) (Result, error) {
			v, ok := get(ctx)
			if !ok {
				return Result{}, Errorf(CodeRefused, "%s is not known yet: no peer has told it", what)
			}
			return Result{Value: hexutil.Uint64(v)}, nil
		}
	}
	return map[string]Method{
		"eth_chainId":     number(func(context.Context) (uint64, bool) { return n.ChainID() }, "the chain ID"),
		"eth_blockNumber": number(n.BlockNumber, "the newest block"),
		"net_version": func(context.Context, json.RawMessage) (Result, error) {
			v, ok := n.NetworkID()
			if !ok {
				return Result{}, Errorf(CodeRefused, "the network is not known yet: no peer has told it")
			}
			raw, err := json.Marshal(v)
			return Result{Value: string(raw)}, err
		},
		"net_peerCount": func(context.Context, json.RawMessage) (Result, error) {
			return Result{Value: hexutil.Uint64(n.PeerCount())}, nil
		},
		"net_listening": func(context.Context, json.RawMessage) (Result, error) { return Result{Value: true}, nil },
		"web3_clientVersion": func(context.Context, json.RawMessage) (Result, error) {
			return Result{Value: n.ClientVersion()}, nil
		},
		"eth_sendRawTransaction": func(_ context.Context, params json.RawMessage) (Result, error) {
			var raw hexutil.Bytes
			if err := only(params, &raw); err != nil {
				return Result{}, err
			}
			tx := new(types.Transaction)
			if err := tx.UnmarshalBinary(raw); err != nil {
				return Result{}, Errorf(CodeParams, "the transaction cannot be read: %v", err)
			}
			state, why, err := n.Send(tx)
			if err != nil {
				var e *Error
				if errors.As(err, &e) {
					return Result{}, e
				}
				return Result{}, Errorf(CodeRefused, "%v", err)
			}
			note := map[string]string{"state": state}
			if why != "" {
				note["why"] = why
			}
			return Result{Value: tx.Hash(), Note: note}, nil
		},
		"chive_transaction": func(_ context.Context, params json.RawMessage) (Result, error) {
			var h common.Hash
			if err := only(params, &h); err != nil {
				return Result{}, err
			}
			s, ok := n.Sent(h)
			if !ok {
				return Result{}, Errorf(CodeRefused, "this node was not asked to send the transaction, or has forgotten it")
			}
			return Result{Value: s}, nil
		},
	}
}

// only reads the parameters of a method that has one.
func only(params json.RawMessage, into any) error {
	var list []json.RawMessage
	if err := json.Unmarshal(params, &list); err != nil || len(list) != 1 {
		return Errorf(CodeParams, "the method takes one parameter")
	}
	if err := json.Unmarshal(list[0], into); err != nil {
		return Errorf(CodeParams, "the parameter cannot be read: %v", err)
	}
	return nil
}
