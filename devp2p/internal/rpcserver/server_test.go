package rpcserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/programtest"
)

type fakeNode struct{ sent []*types.Transaction }

func (*fakeNode) ChainID() (uint64, bool)                    { return 5, true }
func (*fakeNode) NetworkID() (uint64, bool)                  { return 6, true }
func (*fakeNode) BlockNumber(context.Context) (uint64, bool) { return 0, false }
func (*fakeNode) PeerCount() int                             { return 3 }
func (*fakeNode) ClientVersion() string                      { return "test/1" }
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

// TestExtension: a browser's extension that is listed may ask, and read the answer. Other origins get
// nothing; TestGuard has more of them.
func TestExtension(t *testing.T) {
	const listed, other = "chrome-extension://abc", "chrome-extension://abd"
	l, err := program.ListenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&Server{Methods: Methods(new(fakeNode)), Origins: []string{listed}}).Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, origin string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(raw)
	}
	allowed := func(r *http.Response) string { return r.Header.Get("Access-Control-Allow-Origin") }
	if r, body := ask(http.MethodPost, listed); r.StatusCode != http.StatusOK || allowed(r) != listed || r.Header.Get("Vary") != "Origin" || !strings.Contains(body, "0x5") {
		t.Errorf("the extension: %v %s", r, body)
	}
	r, body := ask(http.MethodOptions, listed, "Access-Control-Request-Method", "POST", "Access-Control-Request-Private-Network", "true")
	if r.StatusCode != http.StatusNoContent || allowed(r) != listed || r.Header.Get("Access-Control-Allow-Methods") != "POST" ||
		r.Header.Get("Access-Control-Allow-Headers") != "Content-Type" || r.Header.Get("Access-Control-Allow-Private-Network") != "true" || body != "" {
		t.Errorf("the browser's question: %v %q", r, body)
	}
	if r, _ := ask(http.MethodOptions, listed); r.Header.Get("Access-Control-Allow-Private-Network") != "" {
		t.Errorf("nobody asked for that: %v", r)
	}
	for _, m := range []string{http.MethodPost, http.MethodOptions} {
		for _, o := range []string{other, "https://page.example", "null", "http://" + l.Addr().String()} {
			if r, body := ask(m, o); r.StatusCode != http.StatusForbidden || allowed(r) != "" || strings.Contains(body, "0x5") {
				t.Errorf("%s of %s: %v %s", m, o, r, body)
			}
		}
	}
	if r, _ := ask(http.MethodPost, ""); r.StatusCode != http.StatusOK || allowed(r) != "" {
		t.Errorf("a program: %v", r)
	}
}

// TestSplit: a batch is read as far as the bound only, and must be whole below it.
func TestSplit(t *testing.T) {
	body := []byte("[" + strings.Repeat("1,", 2<<20) + "1]")
	least := testing.AllocsPerRun(1, func() {
		if got, err := split(body); err != nil || len(got) != maxBatch+1 {
			t.Errorf("%d calls, %v", len(got), err)
		}
	})
	if least > 1000 {
		t.Errorf("%.0f allocations", least)
	}
	for _, bad := range []string{"[1", "[1,", "[1,]", "[1] 2", "[1]]", "[,1]"} {
		if got, err := split([]byte(bad)); err == nil {
			t.Errorf("%s: %d calls", bad, len(got))
		}
	}
}

// TestNull: a method without a value has the result null, which wallets look for.
func TestNull(t *testing.T) {
	s := &Server{Methods: map[string]Method{"none": func(context.Context, json.RawMessage) (Result, error) { return Result{}, nil }}}
	if got := string(s.answer(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"none"}`))); got != `{"jsonrpc":"2.0","id":1,"result":null}` {
		t.Error(got)
	}
}

// TestBatch: the calls of a batch are made side by side, and no more than some; the answers stand in
// the order of the calls. One that panics harms no other.
func TestBatch(t *testing.T) {
	programtest.ExpectPanics(t, 1)
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Methods: map[string]Method{
			"wait": func(_ context.Context, params json.RawMessage) (Result, error) {
				time.Sleep(time.Second) // virtual
				return Result{Value: params}, nil
			},
			"panic": func(context.Context, json.RawMessage) (Result, error) { panic("of the test") },
		}}
		began := time.Now()
		calls := []string{`{"jsonrpc":"2.0","id":9,"method":"panic"}`, `{"jsonrpc":"2.0","method":"wait"}`}
		want := []string{`{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"internal error"}}`}
		for i := range 2*maxParallel - 1 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait","params":[%d]}`, i, i))
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":[%d]}`, i, i))
		}
		got := string(s.answer(t.Context(), []byte("["+strings.Join(calls, ",")+"]")))
		if got != "["+strings.Join(want, ",")+"]" {
			t.Errorf("%s", got)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestLongCall: a call may take longer than its client may take to send it, up to a bound.
func TestLongCall(t *testing.T) {
	for takes, want := range map[time.Duration]string{callTime - time.Second: "done", 2 * callTime: "ended"} {
		synctest.Test(t, func(t *testing.T) {
			l := programtest.NewListener()
			s := &Server{Methods: map[string]Method{"long": func(ctx context.Context, _ json.RawMessage) (Result, error) {
				select {
				case <-time.After(takes):
					return Result{Value: "done"}, nil
				case <-ctx.Done():
					return Result{Value: "ended"}, nil
				}
			}}}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if err := s.Serve(ctx, l); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			c := l.Dial()
			const body = `{"jsonrpc":"2.0","id":1,"method":"long"}`
			go fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), `"`+want+`"}`) {
				t.Errorf("%v: %s, %v", takes, got, err)
			}
			c.Close()
			cancel()
			all.Wait()
		})
	}
}

// TestServe: a server on a port of loopback answers until its context ends.
func TestServe(t *testing.T) {
	l, err := program.ListenLoopback("127.0.0.1:0")
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
