package interop

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
)

// devChainID is the chain of these tests.
const devChainID = 424243

// devChain is a chain of one stock geth, with accounts that have ether. A consensus client of a few
// lines makes a block each second: geth's own --dev has no peer-to-peer port.
type devChain struct {
	*geth
	genesis string // the file
	keys    []*ecdsa.PrivateKey
}

func address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// startDevChain runs the chain until the test ends.
func startDevChain(t *testing.T, accounts int, args ...string) *devChain {
	t.Helper()
	c := &devChain{genesis: filepath.Join(t.TempDir(), "genesis.json")}
	alloc := map[string]any{}
	for range accounts {
		key, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		c.keys = append(c.keys, key)
		alloc[address(key).Hex()] = map[string]string{"balance": "0x" + new(big.Int).Exp(big.NewInt(10), big.NewInt(21), nil).Text(16)}
	}
	for at, code := range map[common.Address][]byte{params.BeaconRootsAddress: params.BeaconRootsCode, params.HistoryStorageAddress: params.HistoryStorageCode,
		params.WithdrawalQueueAddress: params.WithdrawalQueueCode, params.ConsolidationQueueAddress: params.ConsolidationQueueCode} {
		alloc[at.Hex()] = map[string]string{"balance": "0x0", "nonce": "0x1", "code": hexutil.Encode(code)} // contracts of the chain itself
	}
	blobs := map[string]int{"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716}
	text, err := json.Marshal(map[string]any{
		"config": map[string]any{"chainId": devChainID, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
			"constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 0,
			"shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "terminalTotalDifficulty": 0, "blobSchedule": map[string]any{"cancun": blobs, "prague": blobs}},
		"difficulty": "0x0", "gasLimit": "0x1c9c380", "baseFeePerGas": "0x3b9aca00", "timestamp": hexutil.Uint64(time.Now().Unix() - 3600), "alloc": alloc,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.genesis, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c.geth = startGethOn(t, c.genesis, "", fmt.Sprint(devChainID), append(args, "--syncmode", "full", "--miner.gasprice", "1")...) // cast offers 1 wei where blocks are empty
	head, err := c.head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if head, err = c.block(t, head); err != nil { // from then on, geth takes transactions
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second) // the chain's own time
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if head, err = c.block(t, head); err != nil {
				t.Errorf("the chain stands: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return c
}

// devHead is a block as the consensus client needs it.
type devHead struct {
	Hash      common.Hash    `json:"hash"`
	Timestamp hexutil.Uint64 `json:"timestamp"`
}

func (c *devChain) head(ctx context.Context) (h devHead, err error) {
	err = c.client.CallContext(ctx, &h, "eth_getBlockByNumber", "latest", false)
	return h, err
}

// block makes a block of what is in geth's pool.
func (c *devChain) block(t *testing.T, parent devHead) (devHead, error) {
	call := func(result any, method string, args ...any) error {
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": args})
		if err != nil {
			return err
		}
		return c.engineCall(t, body, result)
	}
	choice := func(h common.Hash) map[string]any {
		return map[string]any{"headBlockHash": h, "safeBlockHash": h, "finalizedBlockHash": h}
	}
	now := max(hexutil.Uint64(time.Now().Unix()), parent.Timestamp+1)
	var begun struct {
		PayloadStatus struct{ Status string }
		PayloadID     json.RawMessage
	}
	attributes := map[string]any{"timestamp": now, "prevRandao": common.Hash{}, "suggestedFeeRecipient": common.Address{},
		"withdrawals": []any{}, "parentBeaconBlockRoot": common.Hash{}}
	if err := call(&begun, "engine_forkchoiceUpdatedV3", choice(parent.Hash), attributes); err != nil {
		return parent, err
	}
	time.Sleep(200 * time.Millisecond) // geth fills the block meanwhile; it says not when it is done
	var made struct {
		ExecutionPayload  json.RawMessage
		ExecutionRequests []hexutil.Bytes
	}
	if err := call(&made, "engine_getPayloadV4", begun.PayloadID); err != nil {
		return parent, err
	}
	var b struct {
		BlockHash common.Hash
		Timestamp hexutil.Uint64
	}
	if err := json.Unmarshal(made.ExecutionPayload, &b); err != nil {
		return parent, err
	}
	if made.ExecutionRequests == nil {
		made.ExecutionRequests = []hexutil.Bytes{}
	}
	var status struct{ Status string }
	if err := call(&status, "engine_newPayloadV4", made.ExecutionPayload, []common.Hash{}, common.Hash{}, made.ExecutionRequests); err != nil {
		return parent, err
	}
	if status.Status != "VALID" {
		return parent, fmt.Errorf("geth refuses its own block: %s", status.Status)
	}
	if err := call(&begun, "engine_forkchoiceUpdatedV3", choice(b.BlockHash), nil); err != nil {
		return parent, err
	}
	return devHead{b.BlockHash, b.Timestamp}, nil
}
