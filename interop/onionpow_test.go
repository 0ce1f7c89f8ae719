package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestOnionWithPuzzles: a service of C tor's has its defence by proof of work on.
// Chive's clients do no such work. The service puts them behind the clients that do,
// and serves them.
func TestOnionWithPuzzles(t *testing.T) {
	t.Parallel()
	nw := labtest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2})
	dir := t.TempDir()
	log := filepath.Join(dir, "info")
	newStock(t, nw, "HiddenServiceDir "+dir+"/service", "HiddenServicePort 80 "+shared.target.Addr(target.Web),
		"HiddenServicePoWDefensesEnabled 1", "HiddenServicePoWQueueRate 2", "HiddenServicePoWQueueBurst 2",
		"Log notice stdout", "Log [rend]info file "+log)
	name, err := os.ReadFile(filepath.Join(dir, "service", "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	onion := strings.TrimSpace(string(name))
	c, _ := host(t, nw)
	ctx := bounded(t, patience)
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, "the service", patience, func() bool { return fetchOnion(ctx, c, onion, 1000) == nil })
	// More than the service takes at once, so that some wait in its queue.
	const clients = 10
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
	t.Logf("%d clients in %v", clients, time.Since(began).Round(time.Millisecond))
	told, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(told, []byte("Enqueued rendezvous request with effort: 0")); n < clients {
		t.Errorf("the service put %d clients into its queue", n)
	}
}
