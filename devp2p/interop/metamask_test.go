package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// metaMaskOrigin is the origin of MetaMask's requests in Chrome.
const metaMaskOrigin = "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn"

// metaMaskCall makes calls as the extension does: by POST, with its origin. body is a call or a batch.
func metaMaskCall(t *testing.T, url string, body any) []byte {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", metaMaskOrigin)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Access-Control-Allow-Origin") != metaMaskOrigin {
		t.Fatalf("%s: %d %v: %s, %v", raw, resp.StatusCode, resp.Header, answer, err)
	}
	return answer
}

// jsonRPC is a call or its answer.
type jsonRPC struct {
	Version string          `json:"jsonrpc"`
	ID      uint64          `json:"id"`
	Method  string          `json:"method,omitempty"`
	Params  []any           `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// metaMask makes the calls that MetaMask makes for an account that was just chosen and sends ether, in their order:
// its middleware puts the newest block's number in the place of "latest".
func metaMask(t *testing.T, w *walletWorld, account int) {
	key := w.chain.keys[account]
	from, to := address(key), common.Address{0: 0xbb, 19: byte(account)}
	id := uint64(1603968453000001) // IDs are large
	// ask returns an answer, or nil if it must be an error with a code and has it.
	one := func(method string, params ...any) (a jsonRPC, raw []byte) {
		t.Helper()
		id++
		raw = metaMaskCall(t, w.url, jsonRPC{Version: "2.0", ID: id, Method: method, Params: params})
		if err := json.Unmarshal(raw, &a); err != nil || a.ID != id || a.Version != "2.0" {
			t.Fatalf("%s: %s", method, raw)
		}
		return a, raw
	}
	ask := func(method string, code int, params ...any) json.RawMessage {
		t.Helper()
		a, raw := one(method, params...)
		switch {
		case code != 0 && (a.Error == nil || a.Error.Code != code || a.Error.Message == ""):
			t.Errorf("%s: %s, want an error %d", method, raw, code)
		case code == 0 && (a.Error != nil || a.Result == nil):
			t.Fatalf("%s: %s", method, raw)
		}
		return a.Result
	}
	text := func(raw json.RawMessage) (s string) {
		t.Helper()
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s is no text", raw)
		}
		return s
	}
	// The network is added and chosen.
	chain := text(ask("eth_chainId", 0))
	if version := text(ask("net_version", 0)); hexutil.EncodeUint64(number(t, chain).Uint64()) != chain || version == "" {
		t.Errorf("chain %s, network %s", chain, version)
	}
	ask("eth_subscribe", -32601, "newHeads") // there are no sockets: it polls
	newest := text(ask("eth_blockNumber", 0))
	// state returns what an account has at the newest block, by its number. This chain has a block each second, and the peers
	// agree on the newest four: a slow machine may ask for one that is too old.
	state := func(method string) (answer json.RawMessage) {
		t.Helper()
		w.chain.await(t, method+" at a block with a number", func(context.Context) bool {
			a, raw := one(method, from, text(ask("eth_blockNumber", 0)))
			if a.Error != nil && !strings.Contains(a.Error.Message, "newest on which the peers agree") {
				t.Fatalf("%s: %s", method, raw)
			}
			answer = a.Result
			return a.Error == nil
		})
		return answer
	}
	var block struct{ Number, BaseFeePerGas, GasLimit string }
	if err := json.Unmarshal(ask("eth_getBlockByNumber", 0, newest, false), &block); err != nil || block.Number != newest || block.BaseFeePerGas == "" || block.GasLimit == "" {
		t.Errorf("the newest block: %+v, %v", block, err)
	}
	// What accounts have: with the block's number, and in a batch.
	balance := text(state("eth_getBalance"))
	if n := text(state("eth_getTransactionCount")); n != "0x0" {
		t.Errorf("it has sent %s", n)
	}
	var batch []jsonRPC
	for i, m := range []string{"eth_getBalance", "eth_getTransactionCount", "eth_getCode"} {
		batch = append(batch, jsonRPC{Version: "2.0", ID: id + uint64(i) + 1, Method: m, Params: []any{from, "latest"}})
	}
	var answers []jsonRPC
	raw := metaMaskCall(t, w.url, batch)
	if err := json.Unmarshal(raw, &answers); err != nil || len(answers) != len(batch) {
		t.Fatalf("a batch: %s, %v", raw, err)
	}
	for i, a := range answers {
		if a.ID != batch[i].ID || a.Error != nil || a.Result == nil {
			t.Errorf("a batch, %s: %s", batch[i].Method, raw)
		}
	}
	if got := text(answers[0].Result); got != balance {
		t.Errorf("balances %s and %s", balance, got)
	}
	// The transaction is made.
	if code := text(ask("eth_getCode", 0, to, newest)); code != "0x" {
		t.Errorf("code %s", code)
	}
	value := hexutil.EncodeUint64(1000)
	gas := text(ask("eth_estimateGas", 0, map[string]any{"from": from, "to": to, "value": value}))
	ask("eth_call", 0, map[string]any{"from": from, "to": to, "data": "0x313ce567"}, newest)
	var fees struct {
		OldestBlock   string
		BaseFeePerGas []string
		Reward        [][]string
	}
	if err := json.Unmarshal(ask("eth_feeHistory", 0, "0x5", newest, []int{10, 20, 30}), &fees); err != nil || len(fees.BaseFeePerGas) < 2 {
		t.Errorf("fees: %+v, %v", fees, err)
	}
	price := number(t, text(ask("eth_gasPrice", 0)))
	nonce := text(ask("eth_getTransactionCount", 0, from, "pending"))
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(number(t, chain)), &types.DynamicFeeTx{ChainID: number(t, chain), Nonce: number(t, nonce).Uint64(),
		GasTipCap: number(t, "0x3b9aca00"), GasFeeCap: price.Mul(price, number(t, "0x2")).Add(price, number(t, "0x3b9aca00")), Gas: number(t, gas).Uint64(), To: &to, Value: number(t, value)})
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if got := text(ask("eth_sendRawTransaction", 0, hexutil.Encode(raw))); got != tx.Hash().Hex() {
		t.Errorf("it is %s", got)
	}
	// It asks for the receipt until there is one: each time an answer, and null until then.
	if r := ask("eth_getTransactionReceipt", 0, tx.Hash()); string(r) != "null" && !strings.Contains(string(r), tx.Hash().Hex()) {
		t.Errorf("the receipt: %s", r)
	}
	if r := ask("eth_getTransactionByHash", 0, tx.Hash()); !strings.Contains(strings.ToLower(string(r)), strings.ToLower(from.Hex())) {
		t.Errorf("the transaction: %s", r)
	}
	w.mined(t, tx.Hash())
	polls := 0
	for r := json.RawMessage("null"); string(r) == "null"; polls++ {
		if r = ask("eth_getTransactionReceipt", 0, tx.Hash()); polls > 1000 {
			t.Fatal("no receipt")
		}
	}
	t.Logf("mined; %d polls since then", polls)
}
