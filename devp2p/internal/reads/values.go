package reads

import (
	"bytes"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// A check says what is wrong with a result of the upstream, or nothing.
type check func(raw json.RawMessage) (wrong string)

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// number is a quantity of at most 64 bits.
func number(raw json.RawMessage) string {
	var n hexutil.Uint64
	if isNull(raw) || json.Unmarshal(raw, &n) != nil {
		return "the result is no number"
	}
	return ""
}

// amount is a quantity of at most 256 bits.
func amount(raw json.RawMessage) string {
	var n hexutil.Big
	if isNull(raw) || json.Unmarshal(raw, &n) != nil {
		return "the result is no amount"
	}
	return ""
}

// data is a string of bytes.
func data(raw json.RawMessage) string {
	var b hexutil.Bytes
	if isNull(raw) || json.Unmarshal(raw, &b) != nil {
		return "the result is no data"
	}
	return ""
}

// feeHistory has base fees of at most 256 bits.
func feeHistory(raw json.RawMessage) string {
	var f struct {
		OldestBlock   *hexutil.Big     `json:"oldestBlock"`
		BaseFeePerGas []*hexutil.Big   `json:"baseFeePerGas"`
		Reward        [][]*hexutil.Big `json:"reward"`
	}
	if isNull(raw) || json.Unmarshal(raw, &f) != nil || f.OldestBlock == nil {
		return "the result is no history of fees"
	}
	return ""
}

// syncing is false, or says how far the node is.
func syncing(raw json.RawMessage) string {
	var no bool
	var how map[string]json.RawMessage
	if !isNull(raw) && json.Unmarshal(raw, &no) == nil && !no || json.Unmarshal(raw, &how) == nil && how != nil {
		return ""
	}
	return "the result is neither false nor a state of syncing"
}

// object is an object or null whose member is the hash that was asked for.
func object(member string, want common.Hash) check {
	return func(raw json.RawMessage) string {
		if isNull(raw) {
			return ""
		}
		var m map[string]json.RawMessage
		var got common.Hash
		if json.Unmarshal(raw, &m) != nil || json.Unmarshal(m[member], &got) != nil {
			return "the result is no object with a " + member
		}
		if got != want {
			return "the result is about another " + member
		}
		return ""
	}
}

// numbered is a block or null, with the number that was asked for if it was one.
func numbered(want any) check {
	return func(raw json.RawMessage) string {
		if isNull(raw) {
			return ""
		}
		var b struct {
			Number *hexutil.Uint64 `json:"number"` // null: the block that is not there yet
		}
		if json.Unmarshal(raw, &b) != nil {
			return "the result is no block"
		}
		var n hexutil.Uint64
		if tag, ok := want.(string); ok && n.UnmarshalText([]byte(tag)) == nil && (b.Number == nil || *b.Number != n) {
			return "the result is another block"
		}
		return ""
	}
}
