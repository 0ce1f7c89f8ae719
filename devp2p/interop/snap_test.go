package interop

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
	"github.com/chivenet/chive/lab"
)

// TestSnapSync has an empty stock geth take the state of another one by snap, through two sidecars.
func TestSnapSync(t *testing.T) {
	if os.Getenv("CHIVE_SNAP") == "" {
		t.Skip("make judge-snap runs it: CHIVE_SNAP is not set")
	}
	nw := startLab(t, lab.Options{})
	full, empty := startGethWith(t, true, "--syncmode", "full", keepStates), startGethWith(t, false, "--syncmode", "snap")
	full.follow(t)
	first := until(t, beside(t, full, devp2p.Embedded(client(t, nw))), "the onion", published)
	until(t, beside(t, empty, devp2p.Embedded(client(t, nw)), first.Record), "the other geth", func(s sidecar.Status) bool { return s.Forwards > 0 })
	empty.newest(t)
	empty.forkchoice(t)
	empty.await(t, "the state of a block", func(ctx context.Context) bool {
		var newest string
		return empty.client.CallContext(ctx, &newest, "eth_blockNumber") == nil && newest != "0x0"
	})
	empty.await(t, "the newest block", func(context.Context) bool { return empty.forkchoice(t) == "VALID" })
	log, err := os.ReadFile(filepath.Join(empty.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(log, []byte("after pivot commitment")) {
		t.Error("the blocks came, but not the state by snap")
	}
	send(t, full, empty) // whose nonce and balance the empty one knows from the state
}
