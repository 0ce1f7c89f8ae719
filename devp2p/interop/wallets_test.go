package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"
)

// provider is the https server of an upstream: it passes calls on to a geth, and notes them.
type provider struct {
	*httptest.Server
	pem string // the file with its certificate

	mu      sync.Mutex
	methods map[string]int
	conns   map[string]map[string]bool // addresses in the parameters, by connection
}

func startProvider(t *testing.T, geth string) *provider {
	t.Helper()
	at, err := url.Parse(geth)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{methods: map[string]int{}, conns: map[string]map[string]bool{}, pem: filepath.Join(t.TempDir(), "roots.pem")}
	pass := httputil.NewSingleHostReverseProxy(at)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var call struct {
			Method string
			Params []json.RawMessage
		}
		if err := json.Unmarshal(body, &call); err != nil {
			t.Errorf("the upstream got %q", body)
		}
		p.mu.Lock()
		p.methods[call.Method]++
		if p.conns[r.RemoteAddr] == nil {
			p.conns[r.RemoteAddr] = map[string]bool{}
		}
		var account common.Address
		if len(call.Params) > 0 && json.Unmarshal(call.Params[0], &account) == nil {
			p.conns[r.RemoteAddr][account.Hex()] = true
		}
		p.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	if err := os.WriteFile(p.pem, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// calls returns what the upstream was asked.
func (p *provider) calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.methods)
}

// check looks at all that the upstream saw.
func (p *provider) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.methods {
		if strings.Contains(strings.ToLower(m), "send") {
			t.Errorf("the upstream got a transaction: %s", m)
		}
	}
	for _, accounts := range p.conns {
		if len(accounts) > 1 {
			t.Errorf("one connection asked for %d accounts", len(accounts))
		}
	}
	t.Logf("the upstream was asked %v over %d connections", p.methods, len(p.conns))
}

// walletWorld is all that a wallet needs: a chain, whose geth has an onion; a relay, whose only way
// to the chain that is; and an upstream behind the exit of the same Tor network.
type walletWorld struct {
	nw       *lab.Network
	chain    *devChain
	upstream *provider
	url      string // of the relay's port for wallets
	relayDir string
	chiveEth string
}

func startWalletWorld(t *testing.T, accounts int, relayArgs ...string) *walletWorld {
	t.Helper()
	return startWalletWorldWith(t, accounts, func(*walletWorld, *exec.Cmd) {}, relayArgs...)
}

// startWalletWorldWith calls prepare before it runs the relay.
func startWalletWorldWith(t *testing.T, accounts int, prepare func(*walletWorld, *exec.Cmd), relayArgs ...string) *walletWorld {
	t.Helper()
	gethtest.Program(t, "geth")
	dir := t.TempDir()
	var leases host.Ports
	t.Cleanup(leases.Release)
	port, err := leases.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	nw := startLab(t, lab.Options{})
	w := &walletWorld{nw: nw, chiveEth: build(t), relayDir: filepath.Join(dir, "relay")}
	w.chain = startDevChain(t, accounts, "--http", "--http.addr", "127.0.0.1", "--http.port", fmt.Sprint(port), "--http.api", "eth")
	w.upstream = startProvider(t, fmt.Sprintf("http://127.0.0.1:%d", port))
	cmd := w.relay(append([]string{"--rpc-upstream", w.upstream.URL}, relayArgs...)...)
	prepare(w, cmd)
	w.url = says(t, runAs(t, cmd), "Wallets can use ")
	record := awaitRelay(t, w.chain.geth, w.chiveEth, w.relayDir)
	lines := run(t, w.chiveEth, "sidecar", "--ipc", w.chain.ipc, "--only-onion", "--network", nw.NetworkFile,
		"--data-dir", filepath.Join(dir, "sidecar"), "--static", record)
	says(t, lines, "private")
	w.chain.await(t, "the relay as a peer", func(ctx context.Context) bool {
		names, err := w.chain.peers(ctx)
		return err == nil && named(names, "chive-eth")
	})
	return w
}

// relay returns the command of a relay that trusts the upstream's certificate.
func (w *walletWorld) relay(args ...string) *exec.Cmd {
	cmd := exec.Command(w.chiveEth, append([]string{"relay", "--genesis", w.chain.genesis, "--network", w.nw.NetworkFile, "--data-dir", w.relayDir, "--rpc", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+w.upstream.pem, "SSL_CERT_DIR=/nonexistent")
	return cmd
}

// mined waits for a transaction's receipt at geth itself.
func (w *walletWorld) mined(t *testing.T, h common.Hash) {
	t.Helper()
	w.chain.await(t, "the block with the transaction", func(ctx context.Context) bool {
		var r *types.Receipt
		return w.chain.client.CallContext(ctx, &r, "eth_getTransactionReceipt", h) == nil && r != nil && r.Status == 1
	})
}

// TestUpstreamCertificate: an upstream with a certificate of nobody is refused, and is asked nothing.
func TestUpstreamCertificate(t *testing.T) {
	nw := startLab(t, lab.Options{})
	dir := t.TempDir()
	genesis := filepath.Join(dir, "genesis.json")
	if err := os.WriteFile(genesis, []byte(`{"config":{"chainId":4242,"londonBlock":0},"difficulty":"0x0","gasLimit":"0x1c9c380","alloc":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	upstream.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	upstream.StartTLS()
	defer upstream.Close()
	lines := run(t, build(t), "relay", "--genesis", genesis, "--network", nw.NetworkFile, "--data-dir", filepath.Join(dir, "relay"),
		"--rpc", "127.0.0.1:0", "--rpc-upstream", upstream.URL)
	c, err := rpc.DialContext(t.Context(), says(t, lines, "Wallets can use "))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		err = c.CallContext(deadline, new(string), "eth_gasPrice")
		if err == nil || deadline.Err() != nil || strings.Contains(err.Error(), "certificate") {
			break // before, the client has no circuit yet
		}
	}
	if err == nil || !strings.Contains(err.Error(), "certificate is refused") {
		t.Errorf("%v", err)
	}
	if len(asked) > 0 {
		t.Errorf("it was asked %d times", len(asked))
	}
	t.Log(err)
}

// walletPrograms is the directory that interop/wallets/install has filled: real wallets. They are
// not required: installing them needs the registries of Python and JavaScript.
func walletPrograms(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CHIVE_WALLETS")
	if dir == "" {
		t.Skip("no wallets: interop/wallets/install DIR gets them, and CHIVE_WALLETS=DIR names them")
	}
	return dir
}

// TestWallets sends ether with cast, ethers, web3.py and MetaMask's middleware, from nothing to mined. Each has an account
// of its own, and waits for its receipt itself.
func TestWallets(t *testing.T) {
	dir := walletPrograms(t)
	scripts, err := filepath.Abs("wallets")
	if err != nil {
		t.Fatal(err)
	}
	w := startWalletWorld(t, 4, "--rpc-origin", metaMaskOrigin)
	to := "0xaa000000000000000000000000000000000000aa"
	hexKey := func(i int) string { return "0x" + fmt.Sprintf("%x", crypto.FromECDSA(w.chain.keys[i])) }
	for i, cmd := range []*exec.Cmd{
		exec.Command(filepath.Join(dir, "node_modules/.bin/cast"), "send", "--rpc-url", w.url, "--private-key", hexKey(0), "--value", "1ether", to),
		exec.Command("node", filepath.Join(scripts, "ethers.mjs"), w.url, hexKey(1), to),
		exec.Command(filepath.Join(dir, "py/bin/python"), filepath.Join(scripts, "web3py.py"), w.url, hexKey(2), to),
		exec.Command("node", filepath.Join(scripts, "metamask.mjs"), w.url, hexKey(3), to),
	} {
		t.Run([]string{"cast", "ethers", "web3.py", "MetaMask"}[i], func(t *testing.T) {
			before := w.upstream.calls()
			cmd.Env = append(os.Environ(), "CHIVE_WALLETS="+dir, "NODE_PATH="+filepath.Join(dir, "node_modules"))
			kill := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
			began := time.Now()
			out, err := cmd.CombinedOutput()
			kill.Stop()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("mined after %v; it said:\n%s", time.Since(began).Round(time.Millisecond), out)
			var nonce string
			if err := w.chain.client.CallContext(t.Context(), &nonce, "eth_getTransactionCount", address(w.chain.keys[i]), "latest"); err != nil || nonce != "0x1" {
				t.Errorf("the account has sent %s transactions, %v", nonce, err)
			}
			after := w.upstream.calls()
			for _, m := range slices.Sorted(maps.Keys(after)) {
				if n := after[m] - before[m]; n > 0 {
					t.Logf("asked the upstream %d times: %s", n, m)
				}
			}
		})
	}
	w.upstream.check(t)
}
