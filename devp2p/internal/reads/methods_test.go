package reads

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
)

var alice, bob = common.Address{0: 0xa1, 19: 1}, common.Address{0: 0xb0, 19: 2}

// ownTx is a transaction that the node was asked to send.
func ownTx(t *testing.T) (*types.Transaction, common.Address) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	id := big.NewInt(5)
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id, Gas: 21000, To: &alice, Value: big.NewInt(7), GasFeeCap: big.NewInt(9)})
	return tx, crypto.PubkeyToAddress(key.PublicKey)
}

// TestPassed: what is asked of the upstream, with its result.
func TestPassed(t *testing.T) {
	h := common.Hash{1}
	results := map[string]string{
		"eth_gasPrice": `"0x7"`, "eth_maxPriorityFeePerGas": `"0x1"`, "eth_blobBaseFee": `"0x1"`, "eth_syncing": `false`, "eth_blockNumber": `"0x10"`,
		"eth_feeHistory": `{"oldestBlock":"0x1","baseFeePerGas":["0x7"],"reward":[["0x1"]]}`, "eth_call": `"0x01"`, "eth_estimateGas": `"0x5208"`,
		"eth_getCode": `"0x"`, "eth_getBlockByNumber": `{"number":"0x10"}`, "eth_getBlockByHash": `{"hash":"` + h.Hex() + `"}`,
		"eth_getTransactionReceipt": `{"transactionHash":"` + h.Hex() + `"}`, "eth_getTransactionByHash": `null`,
	}
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{}}
	for m, r := range results {
		u.methods[m] = is(r)
	}
	call := u.start(t, &fakeNode{chain: 5}, false)
	params := map[string][]any{
		"eth_feeHistory": {"0x1", "latest", []int{10}}, "eth_call": {map[string]any{"to": bob}, "latest"}, "eth_estimateGas": {map[string]any{"from": alice, "to": bob}},
		"eth_getCode": {alice, "latest"}, "eth_getBlockByNumber": {"0x10", true}, "eth_getBlockByHash": {h, false},
		"eth_getTransactionReceipt": {h}, "eth_getTransactionByHash": {h},
	}
	for m, want := range results {
		if got, err := call(m, params[m]...); err != nil || got != want {
			t.Errorf("%s: %s, %v", m, got, err)
		}
	}
	if got, err := call("eth_accounts"); err != nil || got != "[]" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestNoUpstream: without an upstream, each method says what to give.
func TestNoUpstream(t *testing.T) {
	all, closeAll := Methods(&fakeNode{chain: 5}, Config{})
	defer closeAll()
	call := caller(t, all)
	for m := range all {
		if m == "eth_accounts" {
			continue
		}
		params := []any{}
		if strings.HasPrefix(m, "eth_getTransaction") && m != "eth_getTransactionCount" {
			params = []any{common.Hash{1}}
		}
		if _, err := call(m, params...); err == nil || !strings.Contains(err.Error(), "--rpc-upstream") || !strings.Contains(err.Error(), m) {
			t.Errorf("%s: %v", m, err)
		}
	}
	if all["eth_blockNumber"] != nil {
		t.Error("peers tell the newest block")
	}
	if all["eth_sendRawTransaction"] != nil || all["eth_sendTransaction"] != nil || all["eth_chainId"] != nil {
		t.Error("these are the node's own")
	}
}

// TestOwnReceipt: a transaction that was given to this node and was not mined has the receipt null,
// whatever becomes of asking. Mined, it has the upstream's; and nobody else's is null by an error.
func TestOwnReceipt(t *testing.T) {
	tx, from := ownTx(t)
	node := &fakeNode{chain: 5, own: tx, from: from}
	all, closeAll := Methods(node, Config{})
	defer closeAll()
	if got, err := caller(t, all)("eth_getTransactionReceipt", tx.Hash()); err != nil || !strings.HasPrefix(got, "null ") || !strings.Contains(got, "--rpc-upstream") {
		t.Errorf("no upstream: %s, %v", got, err)
	}
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_getTransactionReceipt": is("null"), "eth_getTransactionByHash": is("null")}}
	call := u.start(t, node, false)
	if got, err := call("eth_getTransactionReceipt", tx.Hash()); err != nil || !strings.HasPrefix(got, "null ") || !strings.Contains(got, `"state":"waiting"`) {
		t.Errorf("not mined: %s, %v", got, err)
	}
	if !u.keys["rpc-upstream/account/"+from.Hex()] || len(u.keys) != 1 {
		t.Errorf("asked over the circuits of %v", u.keys)
	}
	got, err := call("eth_getTransactionByHash", tx.Hash())
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Hash      common.Hash
		From      common.Address
		Value     string
		BlockHash *common.Hash
	}
	if err := json.NewDecoder(strings.NewReader(got)).Decode(&shown); err != nil || shown.Hash != tx.Hash() || shown.From != from || shown.Value != "0x7" || shown.BlockHash != nil ||
		!strings.Contains(got, `"blockNumber":null`) || !strings.Contains(got, `"gasPrice":"0x9"`) {
		t.Errorf("%s, %v", got, err)
	}
	mined := `{"transactionHash":"` + tx.Hash().Hex() + `","status":"0x1"}`
	u.methods["eth_getTransactionReceipt"] = is(mined)
	if got, err := call("eth_getTransactionReceipt", tx.Hash()); err != nil || got != mined {
		t.Errorf("mined: %s, %v", got, err)
	}
	u.methods["eth_getTransactionReceipt"] = is(`{"transactionHash":"` + common.Hash{2}.Hex() + `"}`)
	if got, err := call("eth_getTransactionReceipt", tx.Hash()); err != nil || !strings.HasPrefix(got, "null ") || !strings.Contains(got, "another transactionHash") {
		t.Errorf("a lie: %s, %v", got, err)
	}
	u.errors = map[string]string{"eth_getTransactionReceipt": `{"code":-32000,"message":"indexing is in progress"}`}
	if got, err := call("eth_getTransactionReceipt", tx.Hash()); err != nil || !strings.HasPrefix(got, "null ") || !strings.Contains(got, "indexing") {
		t.Errorf("an error: %s, %v", got, err)
	}
	if _, err := call("eth_getTransactionReceipt", common.Hash{9}); err == nil || !strings.Contains(err.Error(), "indexing") {
		t.Errorf("an error about another one: %v", err)
	}
}

// TestNonce: the next nonce counts the transactions that wait here, for "pending" only.
func TestNonce(t *testing.T) {
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_getTransactionCount": is(`"0x3"`), "eth_getBalance": is(`"0x64"`)}}
	call := u.start(t, &fakeNode{chain: 5, from: alice, next: 6}, false)
	for _, c := range []struct {
		of   common.Address
		at   string
		want string
	}{{alice, "pending", `"0x6"`}, {alice, "latest", `"0x3"`}, {alice, "0x5", `"0x3"`}, {bob, "pending", `"0x3"`}} {
		got, err := call("eth_getTransactionCount", c.of, c.at)
		if err != nil || !strings.HasPrefix(got, c.want+" ") || !strings.Contains(got, "not proved: ") {
			t.Errorf("%v at %s: %s, %v", c.of, c.at, got, err)
		}
	}
	if got, err := call("eth_getBalance", bob); err != nil || !strings.HasPrefix(got, `"0x64" `) {
		t.Errorf("%s, %v", got, err)
	}
}

// TestProofs: nonce and balance come from the proof, and the upstream's word counts for nothing.
func TestProofs(t *testing.T) {
	w := newWorld(t, map[common.Address]types.StateAccount{alice: stateOf(3, 1000), bob: stateOf(1, 5), {7}: stateOf(9, 9)})
	older := newWorld(t, map[common.Address]types.StateAccount{alice: stateOf(2, 900), bob: stateOf(1, 5)})
	asked := alice
	proofOf, refuse := w, ""
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{
		"eth_getTransactionCount": is(`"0x63"`), "eth_getBalance": is(`"0x63"`), // lies
	}}
	u.methods["eth_getProof"] = func(params []json.RawMessage) string {
		if string(params[2]) == refuse {
			return "{}" // no proof of this block
		}
		raw, err := json.Marshal(map[string]any{"accountProof": proofOf.proof(t, asked), "nonce": "0x63", "balance": "0x63"})
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	node := &fakeNode{chain: 5, headers: []*types.Header{w.header(16), older.header(15)}, from: alice, next: 4}
	call := u.start(t, node, true)
	for _, c := range []struct {
		method, want string
		of           common.Address
		at           string
	}{
		{"eth_getTransactionCount", `"0x3"`, alice, "latest"}, {"eth_getTransactionCount", `"0x4"`, alice, "pending"}, {"eth_getBalance", `"0x3e8"`, alice, "latest"},
		{"eth_getBalance", `"0x5"`, bob, "pending"}, {"eth_getTransactionCount", `"0x0"`, common.Address{8}, "latest"}, {"eth_getBalance", `"0x0"`, common.Address{8}, "latest"},
	} {
		asked = c.of
		got, err := call(c.method, c.of, c.at)
		if err != nil || !strings.HasPrefix(got, c.want+" ") || !strings.Contains(got, "proved by the state of block 16") || !strings.Contains(got, "(3)") {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	if slices.Contains(u.asked, "eth_getTransactionCount") || slices.Contains(u.asked, "eth_getBalance") {
		t.Errorf("the upstream's word was asked: %v", u.asked)
	}
	// At a number, as MetaMask asks.
	asked = alice
	if got, err := call("eth_getTransactionCount", alice, "0x10"); err != nil || !strings.HasPrefix(got, `"0x3" `) || !strings.Contains(got, "block 16") {
		t.Errorf("the newest block by its number: %s, %v", got, err)
	}
	proofOf = older
	if got, err := call("eth_getBalance", alice, "0xf"); err != nil || !strings.HasPrefix(got, `"0x384" `) || !strings.Contains(got, "block 15") {
		t.Errorf("the block before by its number: %s, %v", got, err)
	}
	proofOf = w
	for _, at := range []string{"0x9", "0x13", "safe"} {
		if _, err := call("eth_getBalance", alice, at); err == nil || !strings.Contains(err.Error(), "--rpc-proofs require") {
			t.Errorf("block %s: %v", at, err)
		}
	}
	// Proofs of another account, of another state, and none.
	asked = bob
	if got, err := call("eth_getBalance", alice, "latest"); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("another account's proof: %s, %v", got, err)
	}
	asked, proofOf = alice, older
	if got, err := call("eth_getBalance", alice, "latest"); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("another state's proof: %s, %v", got, err)
	}
	refuse = `"0x10"`
	if got, err := call("eth_getBalance", alice, "latest"); err == nil || !strings.Contains(err.Error(), "wrong answer") {
		t.Errorf("an empty proof: %s, %v", got, err)
	}
}

// TestProofAhead: a block that the upstream has before the peers is waited for, a short time and if it can be there soon.
func TestProofAhead(t *testing.T) {
	w := newWorld(t, map[common.Address]types.StateAccount{alice: stateOf(2, 900), bob: stateOf(1, 5)})
	proof, err := json.Marshal(map[string]any{"accountProof": w.proof(t, alice)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    string
		later []int64 // the newest block of the peers, after 16
		ok    bool
	}{
		{"0x11", []int64{17, 18}, true}, {"0x12", []int64{17, 18, 19}, true}, {"0x11", []int64{16, 16, 17}, false}, {"0x13", []int64{19}, false}, {"0x9", []int64{9}, false},
	} {
		node := &fakeNode{chain: 5, headers: []*types.Header{w.header(16)}}
		for _, n := range c.later {
			node.later = append(node.later, []*types.Header{w.header(n)})
		}
		u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_getProof": is(string(proof))}}
		got, err := u.start(t, node, true)("eth_getBalance", alice, c.at)
		if (err == nil) != c.ok || c.ok && !strings.HasPrefix(got, `"0x384" `) {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// TestProofOfOlder: an upstream that is some blocks behind proves the state of an older block.
func TestProofOfOlder(t *testing.T) {
	w := newWorld(t, map[common.Address]types.StateAccount{alice: stateOf(2, 900), bob: stateOf(1, 5)})
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{}}
	raw, err := json.Marshal(map[string]any{"accountProof": w.proof(t, alice)})
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	u.raw = func(rw http.ResponseWriter) {
		blocks = append(blocks, "")
		if len(blocks) == 1 {
			fmt.Fprint(rw, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"header not found"}}`)
			return
		}
		fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":1,"result":%s}`, raw)
	}
	none := &types.Header{Number: big.NewInt(16), Root: common.Hash{1}}
	call := u.start(t, &fakeNode{chain: 5, headers: []*types.Header{none, none, w.header(14)}}, true)
	if got, err := call("eth_getTransactionCount", alice, "latest"); err != nil || !strings.HasPrefix(got, `"0x2" `) || !strings.Contains(got, "block 14") {
		t.Errorf("%s, %v", got, err)
	}
}

// TestUnproved: where there are no proofs, auto says so beside the answer, and require refuses.
func TestUnproved(t *testing.T) {
	for name, c := range map[string]struct {
		headers []*types.Header
		errors  map[string]string
		want    string
	}{
		"no peers":           {nil, nil, "no peer is there"},
		"no method":          {[]*types.Header{{Number: big.NewInt(4)}}, nil, "the method does not exist"},
		"no state any more":  {[]*types.Header{{Number: big.NewInt(4)}}, map[string]string{"eth_getProof": `{"code":-32000,"message":"missing trie node"}`}, "missing trie node"},
		"limits of the plan": {[]*types.Header{{Number: big.NewInt(4)}, {Number: big.NewInt(3)}}, map[string]string{"eth_getProof": `{"code":-32005,"message":"not in your plan"}`}, "not in your plan"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, require := range []bool{false, true} {
				u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_getBalance": is(`"0x1"`)}, errors: c.errors}
				call := u.start(t, &fakeNode{chain: 5, headers: c.headers}, require)
				got, err := call("eth_getBalance", alice, "latest")
				switch {
				case require && (err == nil || !strings.Contains(err.Error(), c.want) || slices.Contains(u.asked, "eth_getBalance")):
					t.Errorf("required: %s, %v; asked %v", got, err, u.asked)
				case !require && (err != nil || !strings.HasPrefix(got, `"0x1" `) || !strings.Contains(got, "not proved: ") || !strings.Contains(got, c.want)):
					t.Errorf("%s, %v", got, err)
				}
			}
		})
	}
}

// TestIsolation: no connection serves two accounts.
func TestIsolation(t *testing.T) {
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_getBalance": is(`"0x1"`), "eth_call": is(`"0x"`), "eth_gasPrice": is(`"0x1"`), "eth_getCode": is(`"0x"`)}}
	call := u.start(t, &fakeNode{chain: 5}, false)
	word := func(a common.Address) string { return "0x70a08231000000000000000000000000" + a.Hex()[2:] }
	for _, c := range []struct {
		method string
		params []any
	}{
		{"eth_getBalance", []any{alice, "latest"}},
		{"eth_getCode", []any{alice, "latest"}},
		{"eth_call", []any{map[string]any{"from": alice, "to": bob}, "latest"}},
		{"eth_call", []any{map[string]any{"to": common.Address{7}, "data": word(alice)}, "latest"}},
		{"eth_getBalance", []any{bob, "latest"}},
		{"eth_call", []any{map[string]any{"to": common.Address{7}, "input": word(bob)}, "latest"}},
		{"eth_call", []any{map[string]any{"to": common.Address{7}, "data": "0x70a08231" + strings.Repeat("0", 62) + "11"}, "latest"}}, // a number
		{"eth_call", []any{map[string]any{"to": common.Address{7}}, "latest"}},
		{"eth_gasPrice", nil},
	} {
		if _, err := call(c.method, c.params...); err != nil {
			t.Errorf("%s %v: %v", c.method, c.params, err)
		}
	}
	calls := 0
	for k := range u.keys {
		if strings.HasPrefix(k, "rpc-upstream/call/") {
			calls++
		}
	}
	for _, want := range []string{"account/" + alice.Hex(), "account/" + bob.Hex(), "chain"} {
		if !u.keys["rpc-upstream/"+want] {
			t.Errorf("no circuits for %s", want)
		}
	}
	if len(u.keys) != 5 || calls != 2 {
		t.Errorf("circuits for %v", slices.Sorted(maps.Keys(u.keys)))
	}
	for i := range 3 * maxAccounts {
		if _, err := call("eth_getBalance", common.Address{1, byte(i)}, "latest"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParams: what a wallet asks wrongly does not reach the upstream.
func TestParams(t *testing.T) {
	u := new(fakeUpstream)
	call := u.start(t, &fakeNode{chain: 5}, false)
	for _, c := range []struct {
		method string
		params []any
	}{
		{"eth_getBalance", nil}, {"eth_getBalance", []any{"0x12"}}, {"eth_getBalance", []any{alice, "newest"}}, {"eth_getBalance", []any{alice, map[string]any{}}},
		{"eth_getBalance", []any{alice, "latest", 1}}, {"eth_getCode", []any{1}}, {"eth_call", nil}, {"eth_call", []any{"x"}}, {"eth_call", []any{map[string]any{}, "x"}},
		{"eth_feeHistory", []any{1}}, {"eth_getBlockByNumber", nil}, {"eth_getBlockByNumber", []any{"x"}}, {"eth_getBlockByNumber", []any{"latest", "yes"}},
		{"eth_getBlockByHash", []any{"0x1"}}, {"eth_getBlockByHash", nil}, {"eth_getTransactionReceipt", nil}, {"eth_getTransactionReceipt", []any{"0x1"}},
		{"eth_getTransactionByHash", []any{alice}}, {"eth_gasPrice", []any{1, 2, 3, 4, 5, 6}},
	} {
		_, err := call(c.method, c.params...)
		var e *rpcserver.Error
		if !errors.As(err, &e) || e.Code != rpcserver.CodeParams {
			t.Errorf("%s %v: %v", c.method, c.params, err)
		}
	}
	if len(u.asked) > 0 {
		t.Errorf("the upstream was asked %v", u.asked)
	}
}
