package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestOnionWithPuzzles: a service of C tor's has its defence by proof of work on, and serves
// fewer clients than come. Chive's clients raise their effort until it serves them, and it
// accepts their proofs. A client that makes no proofs is served when nobody else comes.
func TestOnionWithPuzzles(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2})
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

// TestOnionAsksForWork: more clients want a service of Chive's than it serves, so that it
// suggests an effort. C tor's client makes the proof, and the service serves it.
func TestOnionAsksForWork(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2, Clients: 1})
	ctx := bounded(t, patience)
	server := onionClient(t, ctx, nw, nil)
	const loadPort, torPort = 80, 7
	l := serve(t, server, chive.OnionConfig{Ports: []int{torPort}, Targets: map[int]string{loadPort: shared.target.Addr(target.Web)},
		PoWDefense: true, PoWQueueRate: 3, PoWQueueBurst: 3})
	efforts := make(chan uint32)
	go func() {
		defer close(efforts)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			efforts <- conn.(*chive.OnionConn).Effort()
			conn.Close()
		}
	}()

	c := onionClient(t, ctx, nw, func(cfg *chive.Config) { cfg.OnionMaxEffort = 50 })
	loading, unload := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer unload()
	var served atomic.Int32
	for range 12 {
		load.Go(func() {
			for loading.Err() == nil {
				if fetchOnion(loading, c.Isolated(), l.Address(), 100) == nil {
					served.Add(1)
				}
			}
		})
	}
	status := func() chive.OnionPoW { return *l.Status().PoW }
	await(t, "a suggested effort", patience, func() bool { return status().SuggestedEffort > 1 })

	tor := nw.Node("client0")
	control, err := tor.Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	d := socksclient.Dialer{Proxy: tor.SOCKS.String()}
	var effort uint32
	for try := 0; effort == 0; try++ {
		if ctx.Err() != nil {
			t.Fatalf("C tor's client makes no proof: %+v", status())
		}
		if _, err := control.Command(ctx, "SIGNAL NEWNYM"); err != nil { // it forgets the descriptor
			t.Fatal(err)
		}
		d.User, d.Pass = fmt.Sprint(try), "x"
		one, cancel := context.WithTimeout(ctx, 20*time.Second)
		conn, err := d.DialContext(one, "tcp", net.JoinHostPort(l.Address(), strconv.Itoa(torPort)))
		cancel()
		if err != nil {
			t.Log(err)
			continue
		}
		conn.Close()
		effort = <-efforts
	}
	st := status()
	t.Logf("C tor's client has done effort %d; %d of the load were served; %+v", effort, served.Load(), st)
	for why, n := range st.Refused {
		if n != 0 {
			t.Errorf("%d proofs were refused: %s", n, why)
		}
	}
	if st.Verified == 0 {
		t.Error("no proof was accepted")
	}
}
