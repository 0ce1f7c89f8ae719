package rpcserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

type fakeNode struct{ sent []*types.Transaction }

func (*fakeNode) ChainID() (uint64, bool)     { return 5, true }
func (*fakeNode) NetworkID() (uint64, bool)   { return 6, true }
func (*fakeNode) BlockNumber() (uint64, bool) { return 0, false }
func (*fakeNode) PeerCount() int              { return 3 }
func (*fakeNode) ClientVersion() string       { return "test/1" }
func (n *fakeNode) Send(tx *types.Transaction) (string, string, error) {
	n.sent = append(n.sent, tx)
	if tx.Nonce() == 9 {
		return "", "", errors.New("it is refused")
	}
	return "held", "nobody is there", nil
}
func (*fakeNode) Sent(common.Hash) (any, bool) { return nil, false }

func do(t *testing.T, h http.Handler, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8545/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(raw)
}

func TestCalls(t *testing.T) {
	node := new(fakeNode)
	h := (&Server{Methods: Methods(node)}).handler()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	raw := func(nonce uint64) string {
		tx := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(5)), &types.DynamicFeeTx{ChainID: big.NewInt(5), Nonce: nonce, Gas: 21000})
		b, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return hexutil.Encode(b)
	}
	for _, test := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`, `{"jsonrpc":"2.0","id":1,"result":"0x5"}`},
		{`{"jsonrpc":"2.0","id":"a","method":"net_version","params":[]}`, `{"jsonrpc":"2.0","id":"a","result":"6"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"net_peerCount"}`, `{"jsonrpc":"2.0","id":1,"result":"0x3"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion"}`, `{"jsonrpc":"2.0","id":1,"result":"test/1"}`},
		{`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_chainId"}]`, `[{"jsonrpc":"2.0","id":1,"result":"0x5"}]`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}`, `"code":-32000`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance"}`, `"code":-32601`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x01"]}`, `"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":{}}`, `"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["` + raw(1) + `"]}`, `"chive":{"state":"held","why":"nobody is there"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["` + raw(9) + `"]}`, `"message":"it is refused"`},
		{`{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}`, `"code":-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}`, `"code":-32600`},
		{`{"jsonrpc":`, `"code":-32700`},
		{`[]`, `"code":-32600`},
		{`[` + strings.Repeat(`{},`, maxBatch) + `{}]`, `"code":-32600`},
		{``, `"code":-32700`},
	} {
		code, got := do(t, h, test.body, nil)
		if code != http.StatusOK || !strings.Contains(got, test.want) {
			t.Errorf("%s: %d %s, want %s", test.body, code, got, test.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: no JSON: %s", test.body, got)
		}
	}
	if len(node.sent) != 2 {
		t.Errorf("%d transactions were sent", len(node.sent))
	}
	if code, got := do(t, h, `{"jsonrpc":"2.0","method":"eth_chainId"}`, nil); code != http.StatusNoContent || got != "" {
		t.Errorf("a notification: %d %q", code, got)
	}
}

// TestPages refuses what a page in a browser can send; TestGuard has Hosts and origins.
func TestPages(t *testing.T) {
	h := (&Server{Methods: Methods(new(fakeNode))}).handler()
	body := `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	for name, change := range map[string]func(*http.Request){
		"a form":       func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"GET":          func(r *http.Request) { r.Method = http.MethodGet },
		"a large body": func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", MaxBody+1))) },
	} {
		if code, got := do(t, h, body, change); code < 400 {
			t.Errorf("%s: %d %s", name, code, got)
		}
	}
}

func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "localhost:0", "192.0.2.1:0", "127.0.0.1"} {
		if l, err := Listen(addr); err == nil {
			l.Close()
			t.Errorf("%s: no error", addr)
		}
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&Server{Methods: Methods(new(fakeNode))}).Serve(ctx, l) }()
	resp, err := http.Post("http://"+l.Addr().String(), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	s := &Server{Methods: Methods(new(fakeNode))}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x02c0"]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a := s.answer(t.Context(), body); a != nil && !json.Valid(a) {
			t.Errorf("no JSON: %s", a)
		}
	})
}
