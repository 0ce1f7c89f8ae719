package interop

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/relay"
)

// TestSourceAddressesInCTorNetwork: in a network of C tor, the kernel shows the peers a relay's
// links, an exit's streams and a client's links from the addresses that each wants, and C tor
// lists and uses the relay all the same. The descriptor does not show these addresses.
func TestSourceAddressesInCTorNetwork(t *testing.T) {
	t.Parallel()
	from := func(s string) netaddr.Sources { return netaddr.Sources{V4: netip.MustParseAddr(s)} }
	links, streams, clients := from("127.0.0.3"), from("127.0.0.4"), from("127.0.0.5")
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 3, Exits: 1, VotingInterval: 10 * time.Second, LogLevel: "info"})
	policy, err := exit.ParsePolicy([]string{"accept *:*"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := relay.Config{Nickname: "chivesource", AssumeReachable: true, Exit: &exit.Config{Policy: policy, Private: true, Source: streams}}
	cfg.Outbound.OR = links
	r := startRelay(t, nw, cfg)
	measured(t, nw, r)
	await(t, "the relay is listed", patience, func() bool {
		s := r.Status()
		return s.Accepted == 3 && slices.Contains(strings.Fields(s.Flags), "Exit")
	})
	sees := func(n *ctor.Node, who netaddr.Sources) bool {
		conns, err := connsOf(n.PID())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(conns, func(c conn) bool { return c.remote.Addr() == who.V4 && c.local.Port() == n.OR.Port() })
	}
	for _, n := range nw.Authorities() {
		await(t, n.Name+" has a link from "+links.V4.String(), patience, func() bool { return sees(n, links) })
	}
	ctx := bounded(t, patience)
	ctl, err := nw.Authorities()[0].Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	desc, err := ctl.GetInfo(ctx, "desc/id/"+r.Target().RSA.String())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(desc, "127.0.0.3") || strings.Contains(desc, "127.0.0.4") {
		t.Errorf("the descriptor shows a source address: %s", desc)
	}

	network := nw.Description()
	only, err := path.ParseSet([]string{r.Target().RSA.String()})
	if err != nil {
		t.Fatal(err)
	}
	ccfg := client.Config{Network: &network, Live: client.Live{Path: path.Config{SameSubnet: true, Exit: only, Strict: true}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	ccfg.Outbound.OR = clients
	c, err := client.New(ccfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// A relay has each consensus before a client has it.
	await(t, "the client lists the relay", patience, func() bool { return c.Lists(r.Target().RSA) })
	began := time.Now()
	fetch(t, c)
	if !slices.ContainsFunc(nw.Routers(), func(n *ctor.Node) bool { return sees(n, clients) }) {
		t.Error("no relay has a link from the client's address")
	}
	var came []string
	for _, conn := range shared.target.Conns(began) {
		if conn.Service == target.Source {
			came = append(came, fmt.Sprint(conn.From.Addr()))
		}
	}
	if !slices.Contains(came, streams.V4.String()) {
		t.Errorf("the target has connections from %v", came)
	}
}
