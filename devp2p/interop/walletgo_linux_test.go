package interop

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/chivenet/chive/devp2p/internal/gethtest"
	"github.com/chivenet/chive/lab/host"
)

// relayGroup is the group of the relay's process, by which its packets are counted.
const relayGroup = 65532

// TestWalletGo does with go-ethereum's own client what a wallet does, from nothing to mined, looks at what the
// upstream saw, and counts the relay's packets: to relays of the Tor network, answers to the wallet, and to
// anywhere else, such as the upstream, of which there is none.
func TestWalletGo(t *testing.T) {
	if !host.InNamespace() {
		gethtest.Program(t, "geth")
	}
	inNamespace(t, 8*time.Minute, walletGo)
}

// kept puts a transaction into a relay's data directory as one that waits since two minutes before the relay's
// start. It is due soon after the start, and then the word of one peer counts that it was mined.
func kept(t *testing.T, w *walletWorld, account int) common.Hash {
	t.Helper()
	id := big.NewInt(devChainID)
	tx := types.MustSignNewTx(w.chain.keys[account], types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id,
		To: &common.Address{0: 0xcc}, Gas: 21000, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(100e9)})
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{map[string]any{"raw": hexutil.Bytes(raw), "added": time.Now().Add(-2 * time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(w.relayDir, 0o700), os.WriteFile(filepath.Join(w.relayDir, "broadcast.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return tx.Hash()
}

func walletGo(t *testing.T) {
	var old common.Hash
	w := startWalletWorldWith(t, 4, func(w *walletWorld, cmd *exec.Cmd) {
		old = kept(t, w, 3)
		meter(t, w.nw, relayGroup)
		inGroup(cmd, relayGroup)
	}, "--rpc-proofs", "require", "--rpc-origin", metaMaskOrigin)
	raw, err := rpc.DialContext(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := ethclient.NewClient(raw)
	w.chain.await(t, "a proof by a block of the peers", func(ctx context.Context) bool {
		_, err := c.BalanceAt(ctx, address(w.chain.keys[0]), nil)
		return err == nil
	})
	var sent []common.Hash
	for i := range 4 { // two of each account, at once: the second counts on the first
		key := w.chain.keys[i%2]
		from, to := address(key), common.Address{0: 0xaa, 19: byte(i)}
		id, err := c.ChainID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		nonce, err := c.PendingNonceAt(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if nonce != uint64(i/2) {
			t.Errorf("transaction %d: nonce %d", i, nonce)
		}
		tip, err := c.SuggestGasTipCap(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		price, err := c.SuggestGasPrice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
			ChainID: id, Nonce: nonce, To: &to, Value: price, Gas: 21000, GasTipCap: tip, GasFeeCap: price.Mul(price, number(t, "0x2")),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendTransaction(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		var none *types.Receipt
		if err := raw.CallContext(t.Context(), &none, "eth_getTransactionReceipt", tx.Hash()); err != nil {
			t.Errorf("the receipt of what was sent is no null: %v", err)
		}
		sent = append(sent, tx.Hash())
	}
	for _, h := range sent {
		w.mined(t, h)
		w.chain.await(t, "the receipt at the relay", func(ctx context.Context) bool {
			r, err := c.TransactionReceipt(ctx, h)
			return err == nil && r.Status == 1
		})
	}
	t.Run("MetaMask", func(t *testing.T) { metaMask(t, w, 2) })
	w.upstream.check(t)
	if w.upstream.calls()["eth_getProof"] == 0 {
		t.Error("nothing was proved")
	}
	w.chain.await(t, "the end of what was kept from before", func(ctx context.Context) bool {
		var s struct{ State string }
		if err := raw.CallContext(ctx, &s, "chive_transaction", old); err != nil {
			t.Fatal(err)
		}
		if s.State == "seen" || s.State == "accepted" {
			t.Fatalf("one that is mined at once is %s", s.State)
		}
		return s.State == "mined"
	})
	w.mined(t, old)
	if s, err := status(t.Context(), w.chiveEth, w.relayDir); err != nil {
		t.Error(err)
	} else {
		t.Logf("the relay's pool at the end: %+v", s.Node.Pool)
	}
	metered(t, relayGroup)
}
