package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/path"
)

// TestOnionPaths has Chive and C tor meet with full vanguards and as single onion
// services, over relays of C tor.
func TestOnionPaths(t *testing.T) {
	nw := ctortest.Network(t, ctor.Options{Relays: 7, Exits: 1, Clients: 1, Extra: map[string][]string{"auth": {"TestingDirAuthVoteHSDir *"}}})
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	web := tg.Addr(target.Web)
	proxy := nw.Node("client0").SOCKS
	t.Run("full vanguards", func(t *testing.T) { fullVanguards(t, nw, web, proxy) })
	t.Run("single onion", func(t *testing.T) { singleOnion(t, nw, web, proxy) })
	t.Run("single onion in three hops", func(t *testing.T) { singleOnionFar(t, nw, web, proxy) })
	for _, n := range nw.Nodes {
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, l := range w {
			t.Errorf("%s: %s", n.Name, l)
		}
	}
}

func fullVanguards(t *testing.T, nw *ctor.Network, web string, proxy netip.AddrPort) {
	ctx := bounded(t, 2*patience)
	dir := t.TempDir()
	// saved reads which relays the client keeps for its second and third hops.
	saved := func() (layers [2][]string) {
		files, err := filepath.Glob(filepath.Join(dir, "*", "vanguards.json"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Layers [2][]struct {
				RSA string `json:"rsa"`
			} `json:"layers"`
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		for i, l := range f.Layers {
			for _, g := range l {
				layers[i] = append(layers[i], g.RSA)
			}
		}
		return layers
	}
	start := func() *chive.Client {
		return onionClient(t, ctx, nw, func(cfg *chive.Config) { cfg.DataDir, cfg.Vanguards = dir, chive.VanguardsFull })
	}
	c := start()
	l := serve(t, c, chive.OnionConfig{Targets: map[int]string{80: web}})
	for range 3 {
		if sum, n := fetchHosted(t, proxy, "http://"+l.Address()+"/bytes/1000"); n != 1000 || sum != target.Sum(1000) {
			t.Errorf("%d bytes of the service", n)
		}
	}
	stock := serveOnion(t, ctx, nw, web)
	for range 3 {
		if err := fetchOnion(ctx, c.Isolated(), stock.host, 1000); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	before := saved()
	if len(before[0]) != 4 || len(before[1]) != 8 {
		t.Errorf("%d second hops and %d third hops are saved", len(before[0]), len(before[1]))
	}
	c = start()
	if err := fetchOnion(ctx, c, stock.host, 1000); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if after := saved(); !slices.Equal(after[0], before[0]) || !slices.Equal(after[1], before[1]) {
		t.Error("they changed with a restart:", before, after)
	}
}

func singleOnion(t *testing.T, nw *ctor.Network, web string, proxy netip.AddrPort) {
	c, told := host(t, nw)
	events, stop := c.Events()
	defer stop()
	var mu sync.Mutex
	hops := map[uint64]int{}
	go func() {
		for e := range events {
			if e, ok := e.(*chive.CircuitEvent); ok && e.State == chive.CircuitOpen {
				mu.Lock()
				hops[e.ID] = e.Hops
				mu.Unlock()
			}
		}
	}()
	if _, err := c.Listen(t.Context(), chive.OnionConfig{SingleOnion: "yes"}); !fault.Is(err, fault.Config) {
		t.Errorf("a word that is not the right one: %v", err)
	}
	l := serve(t, c, chive.OnionConfig{Ports: []int{7}, Targets: map[int]string{80: web}, SingleOnion: chive.HostCanBeFound})
	const size = 5 << 20
	began := time.Now()
	if sum, n := fetchHosted(t, proxy, fmt.Sprintf("http://%s/bytes/%d", l.Address(), size)); n != size || sum != target.Sum(size) {
		t.Errorf("%d bytes", n)
	}
	t.Logf("%d bytes in %v", size, time.Since(began))
	d := socksclient.Dialer{Proxy: proxy.String(), User: "other", Pass: "x"}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":7")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if b, err := io.ReadAll(conn); string(b) != "hello" || err != nil {
			t.Errorf("%q %v", b, err)
		}
	})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	id := conn.(*chive.OnionConn).Circuit()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Error(err)
	}
	conn.Close()
	await(t, "the event of the circuit", patience, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return hops[id] != 0
	})
	if hops[id] != 1 {
		t.Errorf("the circuit to the rendezvous point has %d hops", hops[id])
	}
	if !strings.Contains(told.String(), "NOT ANONYMOUS") {
		t.Error("there is no warning")
	}
	if _, err := c.DialContext(t.Context(), "tcp", l.Addr().String()); !fault.Is(err, fault.Config) {
		t.Errorf("the client is used anonymously: %v", err)
	}
}

// singleOnionFar has a host that cannot connect to any relay but those that it is
// connected to: it reaches the others in three hops.
func singleOnionFar(t *testing.T, nw *ctor.Network, web string, proxy netip.AddrPort) {
	desc := nw.Description()
	var closed atomic.Bool
	var refused atomic.Int32
	var mu sync.Mutex
	known := map[netip.AddrPort]bool{}
	dial := func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		mu.Lock()
		if !closed.Load() {
			known[a] = true
		}
		ok := known[a]
		mu.Unlock()
		if !ok {
			refused.Add(1)
			return nil, fault.New(fault.Network, "this relay is out of reach")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", a.String())
	}
	c, err := client.New(client.Config{Network: &desc, Dir: t.TempDir(), Live: client.Live{Path: path.Config{SameSubnet: true}}, Dial: dial, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Wait(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	closed.Store(true)
	key, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	to, err := hsservice.ParseTarget(web)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Listen(hsservice.Config{Key: key, Single: true, Live: hsservice.Live{Targets: map[uint16][]hsservice.Target{80: {to}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitPublished(bounded(t, patience)); err != nil {
		t.Fatal(err)
	}
	// By chance, most relays may be in reach. C tor's client takes another rendezvous point each time.
	for n := range 30 {
		if n >= 3 && refused.Load() > 0 {
			break
		}
		d := socksclient.Dialer{Proxy: proxy.String(), User: fmt.Sprint("far", n), Pass: "x"}
		if sum, n := fetchHostedAs(t, d, "http://"+key.Address()+"/bytes/1000"); n != 1000 || sum != target.Sum(1000) {
			t.Errorf("%d bytes", n)
		}
	}
	if refused.Load() == 0 {
		t.Error("all relays were in reach: nothing was tested")
	}
	t.Logf("%d connections were refused; %d relays are in reach", refused.Load(), len(known))
}
