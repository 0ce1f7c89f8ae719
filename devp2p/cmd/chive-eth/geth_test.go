package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
)

// The tests of this file use a stock geth, and go-ethereum's judge of the protocol. Their
// chain is that of the judge.

// geth is a running geth.
type geth struct {
	t       *testing.T
	enode   string
	http    string
	engine  string
	secret  []byte
	logFile string
}

// testdata returns the folder with the chain.
func testdata(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ethereum/go-ethereum").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "cmd/devp2p/internal/ethtest/testdata")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startGeth starts a geth with a data directory of its own, with the chain's blocks or
// with the first one only.
func startGeth(t *testing.T, blocks bool, args ...string) *geth {
	t.Helper()
	program, data, dir := gethtest.Program(t, "geth"), testdata(t), t.TempDir()
	do := func(args ...string) {
		t.Helper()
		out, err := exec.Command(program, append([]string{"--datadir", dir, "--verbosity", "2"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("geth %v: %v\n%s", args, err, out)
		}
	}
	do("--state.scheme", "hash", "init", filepath.Join(data, "genesis.json"))
	if blocks {
		do("import", filepath.Join(data, "chain.rlp"))
	}
	g := &geth{t: t, secret: make([]byte, 32), logFile: filepath.Join(dir, "log")}
	rand.Read(g.secret)
	secret := filepath.Join(dir, "jwt")
	if err := os.WriteFile(secret, []byte(hex.EncodeToString(g.secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	p2p, rpc, engine := freePort(t), freePort(t), freePort(t)
	g.http, g.engine = fmt.Sprintf("http://127.0.0.1:%d", rpc), fmt.Sprintf("http://127.0.0.1:%d", engine)
	logs, err := os.Create(g.logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{
		"--datadir", dir, "--nodiscover", "--nat=none", "--netrestrict", "127.0.0.0/8", "--networkid", "3503995874084926",
		"--port", fmt.Sprint(p2p), "--http", "--http.port", fmt.Sprint(rpc), "--http.api", "eth,net,admin,txpool,debug",
		"--authrpc.port", fmt.Sprint(engine), "--authrpc.jwtsecret", secret, "--syncmode", "full", "--verbosity", "4", "--cache", "64", "--ipcdisable",
	}, args...)...)
	cmd.Stderr, cmd.Stdout = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		logs.Close()
		if t.Failed() {
			raw, _ := os.ReadFile(g.logFile)
			t.Logf("geth's log:\n%s", raw[max(0, len(raw)-6000):])
		}
	})
	var info struct{ Enode string }
	waitFor(t, "geth answers", func() bool { return g.call(g.http, "admin_nodeInfo", &info) == nil })
	g.enode = strings.Split(info.Enode, "@")[0] + fmt.Sprintf("@127.0.0.1:%d", p2p)
	return g
}

// call calls a method by JSON-RPC.
func (g *geth) call(url, method string, result any, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	return g.post(url, body, result)
}

func (g *geth) post(url string, body []byte, result any) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if url == g.engine {
		req.Header.Set("Authorization", "Bearer "+g.token())
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("%s: %w", raw, err)
	}
	if a.Error != nil {
		return errors.New(a.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// token returns a token for the engine API: a JWT with HS256.
func (g *geth) token() string {
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		enc.EncodeToString(fmt.Appendf(nil, `{"iat":%d}`, time.Now().Unix()))
	mac := hmac.New(sha256.New, g.secret)
	mac.Write([]byte(text))
	return text + "." + enc.EncodeToString(mac.Sum(nil))
}

// forkchoice tells geth which block is the newest, as a consensus client does.
func (g *geth) forkchoice() error {
	raw, err := os.ReadFile(filepath.Join(testdata(g.t), "headfcu.json"))
	if err != nil {
		return err
	}
	var status struct{ PayloadStatus struct{ Status string } }
	if err := g.post(g.engine, raw, &status); err != nil {
		return err
	}
	if s := status.PayloadStatus.Status; s != "VALID" {
		return errors.New(s)
	}
	return nil
}

func (g *geth) blockNumber() string {
	var n string
	if err := g.call(g.http, "eth_blockNumber", &n); err != nil {
		return err.Error()
	}
	return n
}

func gethKey(t *testing.T, nth int) (key string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testdata(t), "accounts.json"))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for i := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(string); ok && len(s) == 66 {
			if i == nth {
				return s[2:]
			}
			i++
		}
	}
}

// TestBetweenGeths puts a relay between two geths: one syncs all blocks from the other
// through it, and a transaction of one arrives at the other.
func TestBetweenGeths(t *testing.T) {
	full, empty := startGeth(t, true), startGeth(t, false)
	if err := full.forkchoice(); err != nil {
		t.Fatal(err)
	}
	status, _ := startRelay(t, &relaySettings{
		tor: tor{policy: "clearnet"}, genesis: filepath.Join(testdata(t), "genesis.json"),
		static: []string{full.enode, empty.enode}, maxPeers: 10, poolBytes: 1 << 20, verbose: true,
	})
	waitFor(t, "the relay knows the newest block", func() bool { s := status(); return len(s.Node.Peers) == 2 && s.Node.Head != nil })
	head := full.blockNumber()
	raw, err := os.ReadFile(filepath.Join(testdata(t), "newpayload.json"))
	if err != nil {
		t.Fatal(err)
	}
	payloads := json.NewDecoder(bytes.NewReader(raw))
	var last json.RawMessage
	var all []json.RawMessage
	if err := payloads.Decode(&all); err != nil {
		t.Fatal(err)
	}
	last = all[len(all)-1]
	if err := empty.post(empty.engine, last, nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the empty geth has all blocks", func() bool {
		if err := empty.forkchoice(); err != nil && err.Error() != "SYNCING" {
			t.Log(err)
		}
		return empty.blockNumber() == head
	})
	s := status()
	t.Logf("passed on: %v, without an answer: %v", s.Node.Passed, s.Node.Empty)
	if s.Node.Passed["headers"] == 0 || s.Node.Passed["bodies"] == 0 {
		t.Error("the blocks did not come through the relay")
	}

	var chainID string
	if err := full.call(full.http, "eth_chainId", &chainID); err != nil {
		t.Fatal(err)
	}
	for nth, from := range []*geth{full, empty} {
		to := map[*geth]*geth{full: empty, empty: full}[from]
		key, err := crypto.HexToECDSA(gethKey(t, nth))
		if err != nil {
			t.Fatal(err)
		}
		var nonce string
		if err := from.call(from.http, "eth_getTransactionCount", &nonce, crypto.PubkeyToAddress(key.PublicKey), "latest"); err != nil {
			t.Fatal(err)
		}
		n, _ := new(big.Int).SetString(nonce, 0)
		id, _ := new(big.Int).SetString(chainID, 0)
		tx := types.MustSignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
			ChainID: id, Nonce: n.Uint64(), GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e11), Gas: 100000, To: &common.Address{7}, Value: big.NewInt(1),
		})
		bin, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := from.call(from.http, "eth_sendRawTransaction", nil, "0x"+hex.EncodeToString(bin)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the transaction arrives at the other geth", func() bool {
			var got *struct{ Hash common.Hash }
			return to.call(to.http, "eth_getTransactionByHash", &got, tx.Hash()) == nil && got != nil && got.Hash == tx.Hash()
		})
		t.Logf("a transaction took %v", time.Since(began))
	}
	var out bytes.Buffer
	if err := status().print(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("status:\n%s", out.String())
}

// judged are the tests of the judge that need no state: each runs against a relay of its
// own, since some of them get their address banned. Left out are InvalidTxs, whose
// transactions have used nonces, or spend more than there is: only state shows that; and
// GetCells, BlobTxAvailabilityFailure and BlobTxWithInvalidCells, which skip themselves
// without eth/72.
var judged = []string{
	"Status", "MaliciousHandshake", "BlockRangeUpdateExpired", "BlockRangeUpdateFuture", "BlockRangeUpdateInvalid",
	"GetBlockHeaders", "GetNonexistentBlockHeaders", "SimultaneousRequests", "SameRequestID", "ZeroRequestID",
	"GetBlockAccessLists", "GetBlockBodies", "GetReceipts", "GetLargeReceipts",
	"NewPooledTxs", "Transaction", "LargeTxRequest",
	"BlobViolations", "TestBlobTxWithoutSidecar", "TestBlobTxWithMismatchedSidecar",
}

// TestJudge has go-ethereum's judge test a relay in front of a geth.
func TestJudge(t *testing.T) {
	judge, data := gethtest.Program(t, "devp2p"), testdata(t)
	full := startGeth(t, true)
	if err := full.forkchoice(); err != nil {
		t.Fatal(err)
	}
	for _, name := range judged {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			status, stop := startRelay(t, &relaySettings{
				tor: tor{policy: "clearnet"}, genesis: filepath.Join(data, "genesis.json"), static: []string{full.enode}, maxPeers: 50, poolBytes: 1 << 20,
				onionPort: port, listen: fmt.Sprintf("127.0.0.1:%d", port), verbose: true,
			})
			defer stop()
			waitFor(t, "the relay knows the newest block", func() bool { return status().Node.Head != nil })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, judge, "rlpx", "eth-test", "--run", "^"+name+"$", "--chain", data, "--node", status().Record,
				"--engineapi", full.engine, "--jwtsecret", "0x"+hex.EncodeToString(full.secret)).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("1/1 tests passed")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
