package interop

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/relay"
)

// TestOnionPadding: the padding machines of the circuits of an onion service's client,
// between Chive's client and C tor's relays, and between C tor's client and Chive's
// relay.
func TestOnionPadding(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	var middle *relay.Relay
	nw, err := ctor.Start(ctx, ctor.Options{
		Relays: 5, Exits: 1, LogLevel: "info",
		Extra: map[string][]string{"auth": {"TestingDirAuthVoteHSDir *"}},
		Guests: func(_ context.Context, nw *ctor.Network) ([]ctor.Guest, error) {
			middle = startRelay(t, nw, relay.Config{Nickname: "chivemiddle", AssumeReachable: true, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}})
			return []ctor.Guest{{Nickname: "chivemiddle", RSA: middle.Target().RSA}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
	})
	tg, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	service := serveOnion(t, ctx, nw, tg.Addr(target.Web))

	// padded counts the lines of C tor's relays that have one of the texts.
	padded := func(text string) int {
		n := 0
		for _, node := range nw.Routers() {
			b, err := os.ReadFile(node.LogPath)
			if err != nil {
				t.Fatal(err)
			}
			n += strings.Count(string(b), text)
		}
		return n
	}
	t.Run("chive client", func(t *testing.T) {
		c := onionClient(t, ctx, nw, nil)
		for range 8 { // some have Chive's relay as their second
			if err := fetchOnion(ctx, c.Isolated(), service.host, 1000); err != nil {
				t.Fatal(err)
			}
		}
		intro, rend := padded("Registering machine relay_ip_circ to non-origin"), padded("Registering machine relay_rp_circ to non-origin")
		await(t, "the machines end", patience, func() bool {
			return padded("Padding machine in end state") >= intro+rend
		})
		sent := padded("Callback: Sending padding to circuit")
		t.Logf("C tor's relays: %d machines of introductions, %d of rendezvous, %d cells", intro, rend, sent)
		if intro == 0 || rend == 0 || sent < 7*intro+rend {
			t.Error("too few")
		}
	})
	t.Run("tor client", func(t *testing.T) {
		before := middle.Stats().Circuit.Padding.Load()
		info := t.TempDir() + "/info"
		var guards []string // not Chive's: a client whose guard is its only second relay builds no circuits
		for _, node := range nw.Routers() {
			guards = append(guards, "$"+node.ID.RSA.String())
		}
		n := newStock(t, nw, "HSLayer2Nodes $"+middle.Target().RSA.String(), "EntryNodes "+strings.Join(guards, ","), "Log info file "+info)
		const connects = 3
		for i := range connects {
			d := socksclient.Dialer{Proxy: n.SOCKS.String(), User: fmt.Sprint("user", i), Pass: "x"}
			if err := fetchOver(ctx, d.DialContext, service.host, 1000); err != nil {
				t.Fatal(err)
			}
		}
		told := func(text string) int {
			b, err := os.ReadFile(info)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(b), text)
		}
		await(t, "the machines end", patience, func() bool {
			return told("Received STOP command on PADDING_NEGOTIATED") >= connects && told("Got padding cell on origin circuit") >= 8*connects
		})
		sent := middle.Stats().Circuit.Padding.Load() - before
		got := told("Got padding cell on origin circuit")
		t.Logf("Chive's relay sent %d cells, and C tor's client got %d", sent, got)
		if told("Middle node did not accept") > 0 || sent < 8*connects {
			t.Error("a machine was refused, or did not run")
		}
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, l := range w {
			t.Errorf("the client: %s", l)
		}
	})
	for _, n := range append(nw.Nodes, service.node) {
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, l := range w {
			t.Errorf("%s: %s", n.Name, l)
		}
	}
}
