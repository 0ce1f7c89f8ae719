package interop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

// slow is after what time TestPrivateTimes says what a transaction waited for.
const slow = 5 * time.Second

// TestPrivateTimes measures how long a transaction takes from the wallet to the only onion peer, a geth.
// CHIVE_MEASURE says how many are sent, one after the other. None is sent on for long after it was mined.
func TestPrivateTimes(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("CHIVE_MEASURE"))
	if err != nil || n < 1 {
		t.Skip("CHIVE_MEASURE=NUMBER measures: it takes some seconds for each")
	}
	w := startWalletWorld(t, 1, "--verbose")
	raw, err := rpc.DialContext(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := ethclient.NewClient(raw)
	id, err := c.ChainID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var there []time.Duration
	var sent []common.Hash
	for i := range n {
		to := common.Address{0: 0xaa}
		tx := types.MustSignNewTx(w.chain.keys[0], types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id,
			Nonce: uint64(i), To: &to, Gas: 21000, GasTipCap: number(t, "0x3b9aca00"), GasFeeCap: number(t, "0x174876e800")})
		began := time.Now()
		if err := c.SendTransaction(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		var states []string // and when they began
		last := ""
		w.chain.await(t, "the transaction at geth", func(ctx context.Context) bool {
			var s struct{ State, Why string }
			if err := raw.CallContext(ctx, &s, "chive_transaction", tx.Hash()); err == nil && s.State+s.Why != last {
				last = s.State + s.Why
				states = append(states, fmt.Sprintf("%.1f s: %s (%s)", time.Since(began).Seconds(), s.State, s.Why))
			}
			var got *types.Transaction
			return w.chain.client.CallContext(ctx, &got, "eth_getTransactionByHash", tx.Hash()) == nil && got != nil
		})
		took := time.Since(began)
		if there = append(there, took); took > slow {
			t.Logf("transaction %d took %v:\n  %s", i, took.Round(10*time.Millisecond), strings.Join(states, "\n  "))
		}
		sent = append(sent, tx.Hash())
	}
	slices.Sort(there)
	t.Logf("at the peer: %d, min %v, median %v, p95 %v, max %v", n, there[0].Round(10*time.Millisecond), there[n/2].Round(10*time.Millisecond),
		there[(n*95+99)/100-1].Round(10*time.Millisecond), there[n-1].Round(10*time.Millisecond))
	states := map[string]int{}
	for _, h := range sent { // also those that were mined before the relay asked for them
		w.chain.await(t, "the end of sending", func(ctx context.Context) bool {
			var s struct{ State string }
			if err := raw.CallContext(ctx, &s, "chive_transaction", h); err != nil && strings.Contains(err.Error(), "has forgotten") {
				s.State = "forgotten since" // many are done after it
			} else if err != nil || s.State != "mined" && s.State != "accepted" {
				return false
			}
			states[s.State]++
			return true
		})
	}
	t.Logf("done: %v", states)
}
