package reads

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/holiman/uint256"

	"github.com/chivenet/chive/devp2p/internal/rpcserver"
	"github.com/chivenet/chive/program/programtest"
)

// fakeNode is this machine's part.
type fakeNode struct {
	chain   uint64
	headers []*types.Header
	own     *types.Transaction
	from    common.Address
	next    uint64 // the nonce after those of own transactions

	later [][]*types.Header // what the peers have when they are asked again
}

func (n *fakeNode) ChainID() (uint64, bool) { return n.chain, n.chain != 0 }
func (n *fakeNode) Agreed(context.Context) ([]*types.Header, int, error) {
	if n.headers == nil {
		return nil, 0, fmt.Errorf("no peer is there")
	}
	now := n.headers
	if len(n.later) > 0 {
		n.headers, n.later = n.later[0], n.later[1:]
	}
	return now, 3, nil
}
func (n *fakeNode) Own(h common.Hash) (*types.Transaction, common.Address, string, string, bool) {
	if n.own == nil || n.own.Hash() != h {
		return nil, common.Address{}, "", "", false
	}
	return n.own, n.from, "waiting", "for its time", true
}
func (n *fakeNode) Next(from common.Address, nonce uint64) uint64 {
	if from == n.from {
		return max(nonce, n.next)
	}
	return nonce
}

// fakeUpstream answers by a table: a function of the parameters, which returns JSON.
type fakeUpstream struct {
	methods map[string]func(params []json.RawMessage) string // a result
	errors  map[string]string                                // an error
	raw     func(w http.ResponseWriter)                      // instead of all answers but the chain ID
	config  Config                                           // of start

	mu    sync.Mutex
	asked []string        // methods
	keys  map[string]bool // isolation keys of connections
}

// start returns the methods with a fake upstream behind a dialler.
func (u *fakeUpstream) start(t *testing.T, n Node, require bool) func(method string, params ...any) (string, error) {
	t.Helper()
	programtest.NoLeaks(t)
	u.keys = map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &c) != nil {
			t.Errorf("the upstream got %q, %v", body, err)
		}
		if r.Header.Get("User-Agent") != "" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("the upstream is told %v", r.Header)
		}
		u.mu.Lock()
		u.asked = append(u.asked, c.Method)
		u.mu.Unlock()
		if u.raw != nil && c.Method != "eth_chainId" {
			u.raw(w)
			return
		}
		switch m, e := u.methods[c.Method], u.errors[c.Method]; {
		case e != "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, c.ID, e)
		case m != nil:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, m(c.Params))
		case c.Method == "eth_chainId":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"0x5"}`, c.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"the method does not exist"}}`, c.ID)
		}
	}))
	t.Cleanup(s.Close)
	real, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	const host = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad.onion"
	u.config = Config{Upstream: &Address{url: &url.URL{Scheme: "http", Host: host, Path: "/secret-key"}}, Require: require, ahead: time.Millisecond,
		Dial: func(ctx context.Context, addr, isolation string) (net.Conn, error) {
			if addr != host+":80" {
				t.Errorf("dialled %s", addr)
			}
			u.mu.Lock()
			u.keys[isolation] = true
			u.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", real.Host)
		}}
	all, closeAll := Methods(n, u.config)
	t.Cleanup(closeAll)
	return caller(t, all)
}

// caller calls methods, and returns the result and the note as JSON.
func caller(t *testing.T, all map[string]rpcserver.Method) func(method string, params ...any) (string, error) {
	return func(method string, params ...any) (string, error) {
		t.Helper()
		if params == nil {
			params = []any{}
		}
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		if all[method] == nil {
			t.Fatalf("no method %s", method)
		}
		r, err := all[method](t.Context(), raw)
		if err != nil {
			if strings.Contains(err.Error(), "secret-key") {
				t.Errorf("an error tells the upstream's URL: %v", err)
			}
			return "", err
		}
		value, err := json.Marshal(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if r.Note != nil {
			note, err := json.Marshal(r.Note)
			if err != nil {
				t.Fatal(err)
			}
			return string(value) + " " + string(note), nil
		}
		return string(value), nil
	}
}

func is(result string) func([]json.RawMessage) string {
	return func([]json.RawMessage) string { return result }
}

// world is a state with some accounts, and its proofs.
type world struct {
	trie *trie.Trie
	root common.Hash
}

func newWorld(t *testing.T, accounts map[common.Address]types.StateAccount) *world {
	t.Helper()
	tr := trie.NewEmpty(nil)
	for a, s := range accounts {
		raw, err := rlp.EncodeToBytes(&s)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Update(crypto.Keccak256(a[:]), raw); err != nil {
			t.Fatal(err)
		}
	}
	return &world{tr, tr.Hash()}
}

func stateOf(nonce, balance uint64) types.StateAccount {
	return types.StateAccount{Nonce: nonce, Balance: uint256.NewInt(balance), Root: types.EmptyRootHash, CodeHash: types.EmptyCodeHash[:]}
}

// proof returns an account's proof.
func (w *world) proof(t *testing.T, a common.Address) (all []hexutil.Bytes) {
	t.Helper()
	db := memorydb.New()
	if err := w.trie.Prove(crypto.Keccak256(a[:]), db); err != nil {
		t.Fatal(err)
	}
	it := db.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		all = append(all, append(hexutil.Bytes{}, it.Value()...))
	}
	return all
}

// header is a header with the state's root.
func (w *world) header(number int64) *types.Header {
	return &types.Header{Number: big.NewInt(number), Root: w.root, Difficulty: new(big.Int)}
}
