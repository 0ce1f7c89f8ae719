package interop

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// backWithin is how long clients of a service that moved may need. Only a run that measures
// fails because of it: CHIVE_LONG=1.
const backWithin = 10 * time.Second

// visitor is a client of a service that moves.
type visitor struct {
	name string
	// forget makes the client forget the descriptor; nil for one that keeps it.
	forget func() error
	// dialer has another circuit for each n.
	dialer func(n int) dialFunc
}

// visitors starts clients of both programs, with and without a memory.
func visitors(t *testing.T, nw *ctor.Network) []visitor {
	t.Helper()
	d := nw.Description()
	var out []visitor
	for _, forgets := range []bool{false, true} {
		name := "that remembers"
		if forgets {
			name = "that forgets"
		}
		node := newStock(t, nw, "LearnCircuitBuildTimeout 0")
		control, err := node.Control(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { control.Close() })
		tor := visitor{name: "C tor " + name, dialer: func(n int) dialFunc {
			return socksclient.Dialer{Proxy: node.SOCKS.String(), User: fmt.Sprint(n), Pass: "x"}.DialContext
		}}
		c := inNetwork(t, &d, name, nil)
		own := visitor{name: "Chive " + name, dialer: func(int) dialFunc { return c.Isolated().DialContext }}
		if forgets {
			tor.forget = func() error { return control.Signal(t.Context(), "NEWNYM") }
			own.forget = func() error { c.NewIdentity(); return nil }
		}
		out = append(out, tor, own)
	}
	return out
}

// moves has a service that C tor began go on at Chive, go back, and come again. While it is
// down, its clients try to reach it all the time.
func moves(t *testing.T, nw *ctor.Network, c *chive.Client) {
	dir := t.TempDir() + "/service"
	web := shared.target.Addr(target.Web)
	began := time.Now()
	tor := newStock(t, nw, "HiddenServiceDir "+dir, "HiddenServicePort 80 "+web, "LearnCircuitBuildTimeout 0")
	k, err := hsservice.ReadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	attempts := 0
	clients := visitors(t, nw)
	// visit has all clients try until each has a page, and tells how long that took since
	// the service began.
	visit := func(by string, start func()) {
		t.Helper()
		ctx := bounded(t, patience)
		var mu sync.Mutex
		back := map[string]time.Time{}
		var wg sync.WaitGroup
		for _, v := range clients {
			if v.forget != nil {
				if err := v.forget(); err != nil {
					t.Fatal(err)
				}
			}
			attempts++
			first := attempts * 1000
			wg.Go(func() {
				var err error
				for n := first; ctx.Err() == nil; n++ {
					one, cancel := context.WithTimeout(ctx, 5*time.Second)
					err = fetchOver(one, v.dialer(n), k.Address(), 1000)
					cancel()
					if err == nil {
						mu.Lock()
						back[v.name] = time.Now()
						mu.Unlock()
						return
					}
					select {
					case <-ctx.Done():
					case <-time.After(200 * time.Millisecond):
					}
				}
				t.Errorf("%s: %s is not back: %v", by, v.name, err)
			})
		}
		start()
		wg.Wait()
		for _, v := range clients {
			took := back[v.name].Sub(began)
			t.Logf("%s: %s is back after %v", by, v.name, took.Round(10*time.Millisecond))
			if os.Getenv("CHIVE_LONG") != "" && took > backWithin {
				t.Errorf("%s: %s took %v", by, v.name, took)
			}
		}
	}
	atChive := func(by string) {
		t.Helper()
		if err := tor.Stop(); err != nil {
			t.Fatal(err)
		}
		var l *chive.OnionListener
		visit(by, func() {
			began = time.Now()
			l = serve(t, c, chive.OnionConfig{KeyDir: dir, Targets: map[int]string{80: web}})
		})
		if l.Address() != k.Address() {
			t.Error("the address changed")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	visit("tor", func() {})
	atChive("chive")
	visit("tor again", func() {
		began = time.Now()
		if err := tor.Start(bounded(t, patience)); err != nil {
			t.Error(err)
		}
	})
	atChive("chive again")
}
