package reads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

func bad(format string, a ...any) *rpcserver.Error {
	return rpcserver.Errorf(rpcserver.CodeParams, format, a...)
}

// list reads the parameters of a call: least to most of them.
func list(params json.RawMessage, least, most int) ([]json.RawMessage, error) {
	var all []json.RawMessage
	if len(params) > 0 {
		if err := json.Unmarshal(params, &all); err != nil {
			return nil, bad("the parameters are no list")
		}
	}
	if len(all) < least || len(all) > most {
		return nil, bad("the method takes %d to %d parameters", least, most)
	}
	return all, nil
}

// read reads one parameter.
func read(raw json.RawMessage, what string, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return bad("%s cannot be read", what)
	}
	return nil
}

// tags are the names of blocks.
var tags = []string{"latest", "pending", "earliest", "safe", "finalized"}

// block reads the parameter that says which block is meant; without one, it is the latest. It
// returns the parameter as the upstream gets it.
func block(all []json.RawMessage, i int) (any, error) {
	if i >= len(all) || string(all[i]) == "null" {
		return "latest", nil
	}
	var tag string
	if json.Unmarshal(all[i], &tag) == nil {
		var n hexutil.Uint64
		if !slices.Contains(tags, tag) && n.UnmarshalText([]byte(tag)) != nil {
			return nil, bad("the block is neither a number such as 0x1 nor one of latest, pending, earliest, safe and finalized")
		}
		return tag, nil
	}
	var by struct { // EIP-1898
		Number    *hexutil.Uint64 `json:"blockNumber,omitempty"`
		Hash      *common.Hash    `json:"blockHash,omitempty"`
		Canonical bool            `json:"requireCanonical,omitempty"`
	}
	if err := json.Unmarshal(all[i], &by); err != nil || (by.Number == nil) == (by.Hash == nil) {
		return nil, bad("the block is neither a number, a name nor a hash")
	}
	return by, nil
}

// The isolation keys. What says nothing about an account has one key for all.
const chainKey = "chain"

// keyOf is the isolation key of an account.
func keyOf(a common.Address) string { return "account/" + a.Hex() }

// txKey is that of a transaction whose sender nobody here knows.
func txKey(h common.Hash) string { return "transaction/" + h.Hex() }

// callKey is the isolation key of a call of a contract: that of its sender; without one, that of
// the account which is its first argument, as wallets ask for balances of tokens; else one of its
// own. So calls for different accounts share no circuit.
func callKey(raw json.RawMessage) (string, error) {
	var c struct {
		From        *common.Address
		Data, Input hexutil.Bytes
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", bad("the call cannot be read")
	}
	if c.From != nil && *c.From != (common.Address{}) {
		return keyOf(*c.From), nil
	}
	data := c.Input
	if data == nil {
		data = c.Data
	}
	const selector, word = 4, 32
	if len(data) >= selector+word {
		arg := data[selector : selector+word]
		if pad := word - common.AddressLength; [word - common.AddressLength]byte(arg[:pad]) == [word - common.AddressLength]byte{} &&
			[common.AddressLength / 2]byte(arg[pad:pad+common.AddressLength/2]) != [common.AddressLength / 2]byte{} { // and no small number
			return keyOf(common.BytesToAddress(arg)), nil
		}
	}
	sum := sha256.Sum256(raw)
	return "call/" + hex.EncodeToString(sum[:]), nil
}
