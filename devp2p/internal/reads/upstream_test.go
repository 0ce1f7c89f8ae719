package reads

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/chivenet/chive/program/programtest"
)

const onion = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion"

func TestParseAddress(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://node.example": true, "https://node.example:8545/v3/key": true, "https://user:key@node.example/": true, "https://192.0.2.1/": true, "https://[2001:db8::1]:1/": true,
		"http://" + onion: true, "https://" + onion + ":8545/x": true, "http://www." + onion: true, "/home/me/geth.ipc": true,
		"http://node.example": false, "http://127.0.0.1:8545": false, "http://localhost:8545": false, "ws://node.example": false, "wss://" + onion: false, "ftp://" + onion: false,
		"https://": false, "https://:80": false, "https://node.example:0": false, "https://node.example:99999": false, "https://node.example:": false, "https://node.example/#x": false,
		"http://" + onion[1:]: false, "http://x.onion": false, "http://[::1": false, "geth.ipc": false, "": false, "node.example": false,
	} {
		a, err := ParseAddress(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && strings.Contains(a.String(), "key") {
			t.Errorf("%q is shown as %q", text, a)
		}
	}
	for text, want := range map[string]string{"https://node.example/x": "node.example:443", "http://" + onion: onion + ":80", "https://[2001:db8::1]/": "[2001:db8::1]:443", "https://node.example:1/": "node.example:1"} {
		a, err := ParseAddress(text)
		if err != nil || a.hostPort() != want {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
}

// TestLies: answers that cannot be right are errors that say so, and nothing of them is used later.
func TestLies(t *testing.T) {
	h := common.Hash{1}
	for name, c := range map[string]struct {
		method string
		params []any
		result string
	}{
		"no number":                 {"eth_estimateGas", []any{map[string]any{}}, `"21000"`},
		"a number of 65 bits":       {"eth_getTransactionCount", []any{alice, "pending"}, `"0x1ffffffffffffffff"`},
		"a negative number":         {"eth_getTransactionCount", []any{alice, "pending"}, `"-0x1"`},
		"a null nonce":              {"eth_getTransactionCount", []any{alice, "pending"}, `null`},
		"an amount of 257 bits":     {"eth_getBalance", []any{alice, "latest"}, `"0x1` + strings.Repeat("0", 64) + `"`},
		"a null balance":            {"eth_getBalance", []any{alice, "latest"}, `null`},
		"a price that is an object": {"eth_gasPrice", nil, `{}`},
		"no data":                   {"eth_call", []any{map[string]any{}}, `"0x1"`},
		"null data":                 {"eth_getCode", []any{alice}, `null`},
		"no history":                {"eth_feeHistory", []any{"0x1", "latest", []int{}}, `{}`},
		"a history of text":         {"eth_feeHistory", []any{"0x1", "latest", []int{}}, `{"oldestBlock":"0x1","baseFeePerGas":["much"]}`},
		"a null history":            {"eth_feeHistory", []any{"0x1", "latest", []int{}}, `null`},
		"another receipt":           {"eth_getTransactionReceipt", []any{h}, `{"transactionHash":"` + common.Hash{2}.Hex() + `"}`},
		"a receipt without a hash":  {"eth_getTransactionReceipt", []any{h}, `{"status":"0x1"}`},
		"a receipt of text":         {"eth_getTransactionReceipt", []any{h}, `"mined"`},
		"another transaction":       {"eth_getTransactionByHash", []any{h}, `{"hash":"` + common.Hash{2}.Hex() + `"}`},
		"another block":             {"eth_getBlockByNumber", []any{"0x10", false}, `{"number":"0x11"}`},
		"a block of text":           {"eth_getBlockByNumber", []any{"latest", false}, `"new"`},
		"another block's hash":      {"eth_getBlockByHash", []any{h, false}, `{"hash":"` + common.Hash{2}.Hex() + `"}`},
		"syncing is true":           {"eth_syncing", nil, `true`},
		"syncing is null":           {"eth_syncing", nil, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{c.method: is(c.result)}}
			got, err := u.start(t, &fakeNode{chain: 5}, false)(c.method, c.params...)
			if err == nil || !strings.Contains(err.Error(), "wrong answer") {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// TestWrongChain: an upstream of another chain is asked for nothing but its chain ID, again for each
// call, and is used as soon as it is right.
func TestWrongChain(t *testing.T) {
	id := `"0x6"`
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_gasPrice": is(`"0x1"`)}}
	u.methods["eth_chainId"] = func([]json.RawMessage) string { return id }
	call := u.start(t, &fakeNode{chain: 5}, false)
	for range 2 {
		if _, err := call("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "node of chain 6, and this is chain 5") {
			t.Errorf("%v", err)
		}
	}
	id = `"five"`
	if _, err := call("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "its chain ID is no number") {
		t.Errorf("%v", err)
	}
	if len(u.asked) != 3 || slices.Contains(u.asked, "eth_gasPrice") {
		t.Errorf("asked %v", u.asked)
	}
	id = `"0x5"`
	for range 2 {
		if got, err := call("eth_gasPrice"); err != nil || got != `"0x1"` {
			t.Errorf("%s, %v", got, err)
		}
	}
	if len(u.asked) != 6 { // the chain ID is asked for once
		t.Errorf("asked %v", u.asked)
	}
	u2 := new(fakeUpstream)
	if _, err := u2.start(t, new(fakeNode), false)("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "--genesis") || len(u2.asked) != 0 {
		t.Errorf("the chain is not known: %v, asked %v", err, u2.asked)
	}
}

// TestAnswers: what is no answer, one without end, redirections and errors.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		raw  func(w http.ResponseWriter)
		want string
	}{
		"nothing":       {func(http.ResponseWriter) {}, "no answer of JSON-RPC"},
		"HTML":          {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, "no answer of JSON-RPC"},
		"another ID":    {func(w http.ResponseWriter) { fmt.Fprint(w, `{"id":2,"result":"0x1"}`) }, "no answer of JSON-RPC"},
		"no result":     {func(w http.ResponseWriter) { fmt.Fprint(w, `{"id":1}`) }, "neither a result nor an error"},
		"no end":        {func(w http.ResponseWriter) { endless(w, strings.Repeat(" ", 64<<10)) }, "more than"},
		"an endless ID": {func(w http.ResponseWriter) { endless(w, `{"id":"`+strings.Repeat("1", 64<<10)) }, "more than"},
		"deep":          {func(w http.ResponseWriter) { fmt.Fprint(w, `{"id":1,"result":`+strings.Repeat("[", 1<<20)) }, "no answer of JSON-RPC"},
		"a redirection": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://other.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "status 307"},
		"to a file": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusMovedPermanently)
		}, "status 301"},
		"another protocol": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) }, "upstream"},
		"a bomb": {func(w http.ResponseWriter) { // of a hundred mebibytes, if somebody unpacked it
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 100 {
				_, _ = z.Write(make([]byte, 1<<20))
			}
			_ = z.Close()
		}, "no answer of JSON-RPC"},
		"a huge header": {func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 128<<10)) }, "cannot be asked"},
		"many headers": {func(w http.ResponseWriter) {
			for i := range 20_000 {
				w.Header().Set(fmt.Sprint("X-", i), "x")
			}
		}, "cannot be asked"},
		"early hints without end": {func(w http.ResponseWriter) {
			w.Header().Set("Link", strings.Repeat("x", 30<<10))
			for range 1000 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, "cannot be asked"},
		"refused":     {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusForbidden) }, "status 403"},
		"it hangs up": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "cannot be asked"},
		"an error of a terminal": {func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"id":1,"error":{"code":-32000,"message":"a\u001b[2Jb`+strings.Repeat("x", 1000)+`"}}`)
		}, "the upstream says: a [2Jb"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &fakeUpstream{raw: c.raw}
			got, err := u.start(t, &fakeNode{chain: 5}, false)("eth_gasPrice")
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 700 || strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// endless writes a part again and again, until nobody reads.
func endless(w http.ResponseWriter, part string) {
	for {
		if _, err := fmt.Fprint(w, part); err != nil {
			return
		}
	}
}

// TestRevert: what a contract says when it refuses reaches the wallet, with its code.
func TestRevert(t *testing.T) {
	u := &fakeUpstream{errors: map[string]string{"eth_estimateGas": `{"code":3,"message":"execution reverted: no","data":"0x08c379a0"}`}}
	_, err := u.start(t, &fakeNode{chain: 5}, false)("eth_estimateGas", map[string]any{"from": alice})
	var e *rpcserver.Error
	if !errors.As(err, &e) || e.Code != 3 || !strings.Contains(e.Message, "execution reverted: no") || e.Data.String() != "0x08c379a0" {
		t.Errorf("%+v", err)
	}
	u = &fakeUpstream{errors: map[string]string{"eth_estimateGas": `{"code":3,"message":"x","data":"0x` + strings.Repeat("00", maxErrData) + `"}`}}
	_, err = u.start(t, &fakeNode{chain: 5}, false)("eth_estimateGas", map[string]any{"from": alice})
	if !errors.As(err, &e) || len(e.Data) > 0 {
		t.Errorf("%d bytes of data", len(e.Data))
	}
}

// TestSlowUpstream: an upstream that does not answer, or that has all places, ends nobody's patience
// beyond callTime.
func TestSlowUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		all, closeAll := Methods(&fakeNode{chain: 5}, Config{Upstream: &Address{url: &url.URL{Scheme: "https", Host: "node.example"}}, Dial: hang})
		defer closeAll()
		errs := make(chan error, 2*maxCalls)
		began := time.Now()
		for range 2 * maxCalls {
			go func() {
				_, err := all["eth_gasPrice"](t.Context(), nil)
				errs <- err
			}()
		}
		texts := map[string]int{}
		for range 2 * maxCalls {
			err := <-errs
			texts[err.Error()]++
		}
		if time.Since(began) != callTime {
			t.Errorf("after %v", time.Since(began))
		}
		slow := 0 // those that had a place; when these end, some of the others may begin, and end at once
		for text, n := range texts {
			if strings.Contains(text, "did not answer within 30s") {
				slow += n
			} else if !strings.Contains(text, "busy") {
				t.Errorf("%d times: %s", n, text)
			}
		}
		if slow < maxCalls {
			t.Errorf("%v", texts)
		}
	})
}

// TestDrip: an upstream that sends a byte now and then ends nobody's patience either.
func TestDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
					t.Error(err)
				}
				_, err := fmt.Fprint(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
				for ; err == nil; time.Sleep(time.Second) { // virtual time
					_, err = fmt.Fprint(theirs, " ")
				}
			}()
			return ours, nil
		}
		all, closeAll := Methods(&fakeNode{chain: 5}, Config{Upstream: &Address{url: &url.URL{Scheme: "http", Host: onion}}, Dial: dial})
		defer closeAll()
		began := time.Now()
		if _, err := all["eth_gasPrice"](t.Context(), nil); err == nil || !strings.Contains(err.Error(), "did not answer within 30s") || time.Since(began) != callTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(2 * time.Second) // virtual time, for the other end to see it
	})
}

// TestHTTP2: what holds for an upstream holds for one that speaks HTTP/2.
func TestHTTP2(t *testing.T) {
	programtest.NoLeaks(t)
	var raw func(http.ResponseWriter)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 {
			t.Errorf("%s, %v", r.Proto, err)
		}
		if strings.Contains(string(body), "eth_chainId") {
			fmt.Fprint(w, `{"id":1,"result":"0x5"}`)
			return
		}
		raw(w)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	config := Config{Upstream: &Address{url: &url.URL{Scheme: "https", Host: "example.com"}}, Roots: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
		}}
	all, closeAll := Methods(&fakeNode{chain: 5}, config)
	defer closeAll()
	call := caller(t, all)
	for _, c := range []struct {
		name string
		raw  func(http.ResponseWriter)
		want string
	}{
		{"no end", func(w http.ResponseWriter) { endless(w, strings.Repeat(" ", 64<<10)) }, "more than"},
		{"a huge header", func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 256<<10)) }, "cannot be asked"},
		{"it ends the stream", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "cannot be asked"},
		{"elsewhere", func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1/")
			w.WriteHeader(http.StatusPermanentRedirect)
		}, "status 308"},
	} {
		raw = c.raw
		if got, err := call("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	raw = func(w http.ResponseWriter) { fmt.Fprint(w, `{"id":1,"result":"0x7"}`) }
	if got, err := call("eth_gasPrice"); err != nil || got != `"0x7"` {
		t.Errorf("after all of it: %s, %v", got, err)
	}
}

// TestChainChanges: an upstream that becomes one of another chain is noticed after some minutes, and used for nothing then.
func TestChainChanges(t *testing.T) {
	id := `"0x5"`
	u := &fakeUpstream{methods: map[string]func([]json.RawMessage) string{"eth_gasPrice": is(`"0x1"`)}}
	u.methods["eth_chainId"] = func([]json.RawMessage) string { return id }
	u.start(t, &fakeNode{chain: 5}, false) // the server and its dialler
	up := &upstream{address: u.config.Upstream, chain: func() (uint64, bool) { return 5, true }, calls: make(chan struct{}, 1),
		all: accounts{address: u.config.Upstream, dial: u.config.Dial}}
	t.Cleanup(up.all.close)
	if _, err := up.call(t.Context(), chainKey, "eth_gasPrice"); err != nil {
		t.Fatal(err)
	}
	id = `"0x6"`
	a := up.all.get(chainKey)
	a.mu.Lock()
	a.checked = a.checked.Add(-chainTime)
	a.mu.Unlock()
	asked := len(u.asked)
	if raw, err := up.call(t.Context(), chainKey, "eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "node of chain 6, and this is chain 5") {
		t.Errorf("%s, %v", raw, err)
	}
	if got := u.asked[asked:]; len(got) != 1 || got[0] != "eth_chainId" {
		t.Errorf("asked %v", got)
	}
}

// TestSocket: the IPC socket of a node on this machine. Its word counts without proofs: it is the
// user's own.
func TestSocket(t *testing.T) {
	programtest.NoLeaks(t)
	dir, err := os.MkdirTemp("", "reads") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "geth.ipc")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{"eth_chainId": `"0x5"`, "eth_getTransactionCount": `"0x3"`, "eth_gasPrice": "endless", "eth_blobBaseFee": "hang up"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var q struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.NewDecoder(c).Decode(&q); err != nil {
				t.Error(err)
			}
			switch a := answers[q.Method]; a {
			case "endless":
				for _, err := fmt.Fprint(c, `"`); err == nil; {
					_, err = fmt.Fprint(c, strings.Repeat("x", 64<<10))
				}
			case "hang up":
			default:
				fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, a)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	all, closeAll := Methods(&fakeNode{chain: 5, headers: []*types.Header{{}}}, Config{Upstream: &Address{socket: path}, Require: true})
	t.Cleanup(closeAll)
	call := caller(t, all)
	if got, err := call("eth_getTransactionCount", alice, "latest"); err != nil || got != `"0x3"` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := call("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("endless: %v", err)
	}
	if _, err := call("eth_blobBaseFee"); err == nil || !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("it hangs up: %v", err)
	}
	address := &Address{socket: path}
	chain := uint64(5)
	nonces := Nonces(address, func() (uint64, bool) { return chain, true })
	if got, err := nonces(t.Context(), []common.Address{alice, bob}); err != nil || len(got) != 2 || got[alice] != 3 || got[bob] != 3 {
		t.Errorf("%v, %v", got, err)
	}
	chain = 6
	if got, err := Nonces(address, func() (uint64, bool) { return chain, true })(t.Context(), []common.Address{alice}); err == nil || len(got) != 0 {
		t.Errorf("nonces of another chain: %v, %v", got, err)
	}
	if Nonces(&Address{url: &url.URL{Scheme: "https", Host: "node.example"}}, nil) != nil {
		t.Error("a node elsewhere would be asked about everybody")
	}
	gone, closeGone := Methods(&fakeNode{chain: 5}, Config{Upstream: &Address{socket: filepath.Join(dir, "none")}})
	t.Cleanup(closeGone)
	if _, err := caller(t, gone)("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "cannot be asked") || strings.Contains(err.Error(), dir) {
		t.Errorf("no socket: %v", err)
	}
}

// TestCertificate: a certificate of nobody, and one for another host, are refused, and the upstream
// gets no request.
func TestCertificate(t *testing.T) {
	programtest.NoLeaks(t)
	asked := make(chan struct{}, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	s.StartTLS()
	t.Cleanup(s.Close)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}
	for name, c := range map[string]struct {
		host  string
		roots bool
	}{"nobody's": {"example.com", false}, "another host's": {"node.example", true}} {
		config := Config{Upstream: &Address{url: &url.URL{Scheme: "https", Host: c.host}}, Dial: dial}
		if c.roots {
			config.Roots = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}
		all, closeAll := Methods(&fakeNode{chain: 5}, config)
		if _, err := caller(t, all)("eth_gasPrice"); err == nil || !strings.Contains(err.Error(), "certificate is refused") {
			t.Errorf("%s: %v", name, err)
		}
		closeAll()
	}
	if len(asked) > 0 {
		t.Error("the upstream was asked")
	}
}

// FuzzProve: no proof makes prove fail badly, and only the right one shows the account.
func FuzzProve(f *testing.F) {
	f.Add([]byte{}, []byte{0xc0}, []byte{0x80})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		w := newWorld(t, map[common.Address]types.StateAccount{alice: stateOf(3, 1000), bob: stateOf(1, 5)})
		proof := append([]hexutil.Bytes{a, b, c}, w.proof(t, alice)[:1]...)
		if s, err := prove(w.root, alice, proof); err == nil && (s.nonce != 3 || s.balance.Uint64() != 1000) {
			t.Errorf("%+v", s)
		}
	})
}
