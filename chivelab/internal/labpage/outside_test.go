package labpage_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

// TestMain makes this program a node when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"authority", "proxy", "relay"}, os.Args[1]) {
		cli.Main(cli.Chive(os.Args[1:]...))
		return
	}
	os.Exit(m.Run())
}

// TestOtherProcesses: nodes of Chive in processes of their own and of C tor tell their figures, what nobody can read is said to
// lack, and a process that is gone is no hindrance.
func TestOtherProcesses(t *testing.T) {
	_, err := lab.FindTor("")
	labtest.Need(t, "C tor", err)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	nw, at := showOver(t, nil, lab.Options{Authorities: 1, Relays: 2, Exits: 1, VotingInterval: 5 * time.Minute, Processes: true, Program: self, CtorRelays: 1, CtorClients: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := nw.Fetch(ctx, 100_000); err != nil {
		t.Fatal(err)
	}
	before, err := daemon.ReadStatus(ctx, filepath.Join(nw.Dir, "chiveexit0"))
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, at)
	find := func(s *page.State, name string) *page.Node {
		i := slices.IndexFunc(s.Nodes, func(n page.Node) bool { return n.Name == name })
		if i < 0 {
			t.Fatalf("no node %s", name)
		}
		return &s.Nodes[i]
	}
	// On a busy machine a node may not answer in time, and does so later.
	st, _ := w.until(func(s *page.State) bool {
		return !slices.ContainsFunc(s.Nodes, func(n page.Node) bool { return n.Figures == nil && n.Role != "authority" }) &&
			find(s, "relay0").Figures.Links > 0 && slices.ContainsFunc(s.Circuits, func(c page.Circuit) bool { return c.Client == "client0" })
	})
	after, err := daemon.ReadStatus(ctx, filepath.Join(nw.Dir, "chiveexit0"))
	if err != nil {
		t.Fatal(err)
	}
	if f := find(st, "chiveexit0").Figures; f.CellsIn < before.Relay.CellsIn || f.CellsIn > after.Relay.CellsIn || f.BytesOut == 0 || !slices.Equal(f.Lacks, []string{"queued"}) {
		t.Errorf("an exit in a process of its own: %+v; its status had %d cells before, and has %d", f, before.Relay.CellsIn, after.Relay.CellsIn)
	}
	if n := find(st, "authority0"); n.Figures != nil || !strings.HasPrefix(n.Note, "no figures") {
		t.Errorf("an authority in a process of its own: %+v", n)
	}
	if f := find(st, "chiveclient").Figures; f.BytesIn == 0 || !slices.Contains(f.Lacks, "cells_in") {
		t.Errorf("a client in a process of its own: %+v", f)
	}
	if n := find(st, "relay0"); n.Program != "tor" || n.Figures.BytesIn == 0 || !slices.Equal(n.Figures.Lacks, []string{"cells_in", "cells_out", "queued", "circuits", "streams"}) {
		t.Errorf("C tor's relay: %+v, %+v", n, n.Figures)
	}
	if f := find(st, "client0").Figures; f.BytesIn == 0 || f.Circuits == 0 {
		t.Errorf("C tor's client: %+v", f)
	}
	for _, c := range st.Circuits {
		for _, h := range c.Hops {
			if find(st, h.Node); (h.Handshake == "") != (c.Client == "client0") {
				t.Errorf("a hop of %s: %+v", c.Client, h)
			}
		}
	}
	if !slices.ContainsFunc(st.Links, func(l page.Link) bool { return l.A == "relay0" || l.B == "relay0" }) {
		t.Errorf("C tor's relay has no link: %+v", st.Links)
	}
	if status, text := post(t, at, "trace", nil); status != http.StatusConflict || !strings.Contains(text, "not in this process") {
		t.Errorf("a cell was followed through other processes: %d %s", status, text)
	}
	gone := nw.Node("chiverelay1")
	if err := gone.Kill(); err != nil { // without the page
		t.Fatal(err)
	}
	st, _ = w.until(func(s *page.State) bool { return find(s, "chiverelay1").Figures == nil })
	if n := find(st, "chiverelay1"); n.Note != "no figures: it does not answer" {
		t.Errorf("a process that is gone: %+v", n)
	}
}
