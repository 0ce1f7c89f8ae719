package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/ethnode/broadcast"
	"github.com/chivenet/chive/lab"
)

// waitFor waits for something that another program does.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(3 * time.Minute)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// startRelay runs chive-eth relay until stop is called, or the test ends.
func startRelay(t *testing.T, s *relaySettings) (status func() *relayStatus, stop func()) {
	t.Helper()
	if s.dataDir == "" {
		s.dataDir = t.TempDir()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var logs bytes.Buffer
	go func() { done <- s.run(ctx, io.Discard, &logs) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the relay ends with %v", err)
		}
		if t.Failed() {
			t.Logf("the relay's log:\n%s", logs.Bytes()[max(0, logs.Len()-6000):])
		}
	})
	t.Cleanup(stop)
	read := func() *relayStatus {
		raw, err := readStatus(ctx, filepath.Join(s.dataDir, socketName))
		if err != nil {
			return nil
		}
		st := new(relayStatus)
		if err := json.Unmarshal(raw, st); err != nil {
			t.Error(err)
		}
		return st
	}
	waitFor(t, "the relay answers", func() bool {
		select {
		case err := <-done:
			done <- err
			t.Fatalf("the relay ends: %v", err)
		default:
		}
		return read() != nil
	})
	return read, stop
}

// rpcCall calls a method of a relay, and returns the answer.
func rpcCall(t *testing.T, addr, method string, params ...any) (result, note string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+addr, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a struct{ Result, Error, Chive json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Error != nil {
		t.Fatalf("%s: %s", method, a.Error)
	}
	return string(a.Result), string(a.Chive)
}

// genesisFile writes the genesis of a private network.
func genesisFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "genesis.json")
	text := `{"config":{"chainId":4242,"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,"byzantiumBlock":0,
"constantinopleBlock":0,"petersburgBlock":0,"istanbulBlock":0,"berlinBlock":0,"londonBlock":0,"shanghaiTime":0,"cancunTime":0,
"terminalTotalDifficulty":0},"gasLimit":"0x1c9c380","difficulty":"0x0","alloc":{}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrivateOverOnions sends a transaction while no onion peer is known: it is held, also
// over a restart. With a peer, it is sent over an onion, and the peer has it.
func TestPrivateOverOnions(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no network of relays")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	t.Cleanup(cancel)
	network, err := lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 6, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the relays have ended
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	genesis, dir := genesisFile(t), t.TempDir()
	settings := func() *relaySettings {
		return &relaySettings{networks: []string{network.NetworkFile}, genesis: genesis, maxPeers: 10, poolBytes: 1 << 20}
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	id := big.NewInt(4242)
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id, Gas: 21000, To: &common.Address{1}, GasFeeCap: big.NewInt(1), GasTipCap: new(big.Int)})
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}

	alone := settings()
	alone.dataDir, alone.rpc = dir, "127.0.0.1:0"
	status, stop := startRelay(t, alone)
	result, note := rpcCall(t, status().RPC, "eth_sendRawTransaction", "0x"+hex.EncodeToString(raw))
	if result != `"`+tx.Hash().Hex()+`"` || !strings.Contains(note, `"held"`) {
		t.Errorf("the wallet is told %s, %s", result, note)
	}
	if s := status().Private; len(s) != 1 || s[0].State != broadcast.Held {
		t.Errorf("%+v", s)
	}
	stop()

	peer := settings()
	peer.onionPort = 30303
	peerStatus, _ := startRelay(t, peer)
	waitFor(t, "the peer has an onion", func() bool {
		n, err := enode.Parse(enode.ValidSchemes, peerStatus().Record)
		if err != nil {
			return false
		}
		_, _, err = devp2p.OnionOf(n)
		return err == nil
	})
	again := settings()
	again.dataDir, again.static = dir, []string{peerStatus().Record}
	status, _ = startRelay(t, again)
	began := time.Now()
	waitFor(t, "the peer has the transaction", func() bool { return peerStatus().Node.Pool.Count == 1 })
	t.Logf("the peer had it after %v", time.Since(began))
	waitFor(t, "both are connected", func() bool { return len(status().Node.Peers) == 1 })
	if p := status().Node.Peers[0]; !p.Onion || !p.Relay {
		t.Errorf("%+v", p)
	}
	waitFor(t, "the delivery is over", func() bool { p := status().Private; return len(p) == 1 && p[0].Sent == 1 })
	var out bytes.Buffer
	if err := status().print(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("status:\n%s", out.String())
}
