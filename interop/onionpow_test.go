package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestOnionWithPuzzles: a service of C tor's has its defence by proof of work on, and serves
// fewer clients than come. Chive's clients raise their effort until it serves them, and it
// accepts their proofs. A client that makes no proofs is served when nobody else comes.
func TestOnionWithPuzzles(t *testing.T) {
	t.Parallel()
	nw := labtest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2})
	dir := t.TempDir()
	log := filepath.Join(dir, "info")
	told := func() []byte {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	newStock(t, nw, "HiddenServiceDir "+dir+"/service", "HiddenServicePort 80 "+shared.target.Addr(target.Web),
		"HiddenServicePoWDefensesEnabled 1", "HiddenServicePoWQueueRate 1", "HiddenServicePoWQueueBurst 1",
		"Log notice stdout", "Log [rend]info file "+log)
	name, err := os.ReadFile(filepath.Join(dir, "service", "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	onion := strings.TrimSpace(string(name))
	ctx := bounded(t, patience)
	idler := onionClient(t, ctx, nw, func(cfg *chive.Config) { cfg.OnionMaxEffort = -1 })
	await(t, "the service", patience, func() bool { return fetchOnion(ctx, idler, onion, 1000) == nil })
	const verified = "PoW INTRODUCE2 request successfully verified"
	if bytes.Contains(told(), []byte(verified)) {
		t.Error("a client without proofs has sent one")
	}

	c := onionClient(t, ctx, nw, nil)
	// It serves one a second: some come again, with a proof, before it is their turn.
	const clients = 12
	got := make(chan error, clients)
	began := time.Now()
	for range clients {
		go func() { got <- fetchOnion(ctx, c.Isolated(), onion, 1000) }()
	}
	for range clients {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	text := told()
	served := map[string]int{}
	for _, m := range regexp.MustCompile(`Dequeued pending rendezvous request with effort: (\d+)`).FindAllSubmatch(text, -1) {
		served[string(m[1])]++
	}
	t.Logf("%d clients in %v; %d proofs; served by effort: %v", clients, time.Since(began).Round(time.Millisecond), bytes.Count(text, []byte(verified)), served)
	if served["8"] == 0 || !bytes.Contains(text, []byte(verified)) {
		t.Error("the service accepted no proof")
	}
	if m := regexp.MustCompile(`(?m)^.*(Verification of|Seed head|replay cache).*$`).Find(text); m != nil {
		t.Errorf("the service refused a proof: %s", m)
	}
}
