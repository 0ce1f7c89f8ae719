package interop

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab/host"
)

// networkID is that of go-ethereum's test chain.
const networkID = "3503995874084926"

// secret is the hex secret of the engine API: it guards nothing here.
const secret = "0x7365637265747365637265747365637265747365637265747365637265747365"

// testdata is the directory of go-ethereum's test chain. It comes with the judge's source.
var testdata = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ethereum/go-ethereum")
	cmd.Dir = "../peers"
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "cmd/devp2p/internal/ethtest/testdata"), nil
})

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// geth is a stock geth with the test chain, which shows itself to nobody outside
// loopback.
type geth struct {
	dir    string
	ipc    string
	engine string // URL of the engine API
	client *rpc.Client
	info   *p2p.NodeInfo
}

// startGeth makes a chain of its own and runs geth until the test ends.
func startGeth(t *testing.T) *geth {
	t.Helper()
	return startGethWith(t, true)
}

// startGethWith is startGeth, with the chain's blocks or with the first one only.
func startGethWith(t *testing.T, blocks bool, args ...string) *geth {
	t.Helper()
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	chain := ""
	if blocks {
		chain = filepath.Join(data, "chain.rlp")
	}
	return startGethOn(t, filepath.Join(data, "genesis.json"), chain, networkID, args...)
}

// keepStates is the flag of a geth that keeps the states of all blocks, and so has them for others.
const keepStates = "--gcmode=archive"

// startGethOn runs geth on the chain of a genesis, with the blocks of a file if one is named.
func startGethOn(t *testing.T, genesis, chain, network string, args ...string) *geth {
	t.Helper()
	path := gethtest.Program(t, "geth")
	// The path of a Unix socket is short.
	dir, err := os.MkdirTemp("", "chive-geth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := dataOf(path, dir, genesis, chain, slices.Contains(args, keepStates)); err != nil {
		t.Fatal(err)
	}

	var leases host.Ports
	t.Cleanup(leases.Release)
	p2pPort, err := leases.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	enginePort, err := leases.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[Node.P2P]\nListenAddr = \"127.0.0.1:%d\"\n", p2pPort)
	for name, text := range map[string]string{"config.toml": config, "secret": secret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &geth{dir: dir, ipc: filepath.Join(dir, "geth.ipc"), engine: fmt.Sprintf("http://127.0.0.1:%d", enginePort)}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, append([]string{"--datadir", dir, "--config", filepath.Join(dir, "config.toml"), "--networkid", network,
		"--nodiscover", "--nat", "none", "--netrestrict", "127.0.0.0/8",
		"--authrpc.port", fmt.Sprint(enginePort), "--authrpc.jwtsecret", filepath.Join(dir, "secret")}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			if text, err := os.ReadFile(filepath.Join(dir, "log")); err == nil {
				t.Logf("geth said:\n%s", text[max(0, len(text)-6000):])
			}
		}
	})
	g.await(t, "its IPC socket", func(ctx context.Context) bool {
		if g.client == nil {
			c, err := rpc.DialIPC(ctx, g.ipc)
			if err != nil {
				return false
			}
			g.client = c
			t.Cleanup(c.Close)
		}
		return g.client.CallContext(ctx, &g.info, "admin_nodeInfo") == nil && g.info != nil
	})
	return g
}

// await asks until something is so.
func (g *geth) await(t *testing.T, what string, ok func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("geth: %s: not in three minutes", what)
		case <-time.After(100 * time.Millisecond): // geth tells nobody
		}
	}
}

// follow gives geth the head of the test chain as a consensus client would. From then on
// it takes transactions.
func (g *geth) follow(t *testing.T) {
	t.Helper()
	if status := g.forkchoice(t); status != "VALID" {
		t.Fatalf("geth does not follow the chain: %s", status)
	}
}

// forkchoice tells geth which block is the newest, and returns what it says.
func (g *geth) forkchoice(t *testing.T) string {
	t.Helper()
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(data, "headfcu.json"))
	if err != nil {
		t.Fatal(err)
	}
	return g.consensus(t, body).PayloadStatus.Status
}

// newest gives geth the last block of the test chain.
func (g *geth) newest(t *testing.T) {
	t.Helper()
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(data, "newpayload.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	g.consensus(t, all[len(all)-1])
}

// consensusAnswer is what geth answers to a consensus client.
type consensusAnswer struct{ PayloadStatus struct{ Status string } }

// consensus sends a call to the engine API.
func (g *geth) consensus(t *testing.T, body []byte) consensusAnswer {
	t.Helper()
	var answer consensusAnswer
	if err := g.engineCall(t, body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// engineCall makes a call to the engine API.
func (g *geth) engineCall(t *testing.T, body []byte, result any) error {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, g.engine, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token(t))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("geth's engine: %s", answer.Error.Message)
	}
	return json.Unmarshal(answer.Result, result)
}

// token is a JSON web token for the engine API.
func token(t *testing.T) string {
	t.Helper()
	key, err := hex.DecodeString(strings.TrimPrefix(secret, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString(fmt.Appendf(nil, `{"iat":%d}`, time.Now().Unix()))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + enc.EncodeToString(mac.Sum(nil))
}

// transaction makes a transaction of an account of the test chain.
func transaction(t *testing.T, g *geth) *types.Transaction {
	t.Helper()
	data, err := testdata()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(data, "accounts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var accounts map[string]struct{ Key string }
	if err := json.Unmarshal(b, &accounts); err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		key, err := crypto.HexToECDSA(strings.TrimPrefix(a.Key, "0x"))
		if err != nil {
			t.Fatal(err)
		}
		var nonce, balance string
		from := crypto.PubkeyToAddress(key.PublicKey)
		for method, out := range map[string]*string{"eth_getTransactionCount": &nonce, "eth_getBalance": &balance} {
			if err := g.client.CallContext(t.Context(), out, method, from, "latest"); err != nil {
				t.Fatal(err)
			}
		}
		return types.MustSignNewTx(key, types.LatestSignerForChainID(number(t, "0x"+fmt.Sprintf("%x", chainID))), &types.DynamicFeeTx{
			ChainID: number(t, "0x"+fmt.Sprintf("%x", chainID)), Nonce: number(t, nonce).Uint64(),
			GasTipCap: number(t, "0x3b9aca00"), GasFeeCap: number(t, "0x174876e800"), Gas: 21000, To: &from,
		})
	}
	t.Fatal("the test chain has no accounts")
	return nil
}
