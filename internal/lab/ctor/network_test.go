//go:build unix

package ctor_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netfile"
)

// TestNetwork starts one network and asks everything of it.
func TestNetwork(t *testing.T) {
	nw := ctortest.Network(t, ctor.Options{Clients: 1, IPv6: ctor.HasIPv6(), Params: map[string]int{"cc_alg": 0}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := nw.Node("client0").Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	t.Run("consensus", func(t *testing.T) {
		cons, err := c.GetInfo(ctx, "dir/status-vote/current/consensus-microdesc")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(cons, "cc_alg=0") {
			t.Error("the consensus lacks the parameter cc_alg=0")
		}
		if want := len(nw.Routers()); strings.Count(cons, "\nr ") != want || strings.Count(cons, " Running ") != want+1 /* and in known-flags */ {
			t.Errorf("the consensus does not list %d running relays:\n%s", want, cons)
		}
		if ctor.HasIPv6() && strings.Count(cons, "\na [::1]:") != len(nw.Routers()) {
			t.Error("the consensus lacks IPv6 addresses")
		}
	})
	t.Run("network file", func(t *testing.T) {
		text, err := nw.NetworkFile()
		if err != nil {
			t.Fatal(err)
		}
		got, err := netfile.Parse("network.toml", text)
		want := nw.Description()
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%v\n%s", err, text)
		}
		if got.Testing.VotingInterval != 5*time.Minute { // clients go by it
			t.Errorf("the network votes every %v", got.Testing.VotingInterval)
		}
		fromTorrc, err := netfile.ImportTorrc("ctor", "torrc", []byte(nw.Torrc()))
		if err != nil || len(fromTorrc.Authorities) != len(nw.Authorities()) {
			t.Errorf("imported from a torrc: %+v, %v", fromTorrc, err)
		}
	})
	t.Run("pinned circuit", func(t *testing.T) {
		events, err := c.Events(ctx, "CIRC")
		if err != nil {
			t.Fatal(err)
		}
		path := []*ctor.Node{nw.Node("relay1"), nw.Node("auth0"), nw.Node("exit1")}
		id, err := c.Extend(ctx, path...)
		if err != nil {
			t.Fatal(err)
		}
		for ev := range events {
			circ, err := ctor.ParseCircuit(ev.Rest)
			if err != nil {
				t.Fatal(err)
			}
			if circ.ID != id || circ.Status == "LAUNCHED" || circ.Status == "EXTENDED" {
				continue
			}
			if circ.Status != "BUILT" || len(circ.Path) != 3 {
				t.Fatalf("circuit: %+v", circ)
			}
			for i, h := range circ.Path {
				if h.RSA != path[i].ID.RSA || h.Name != path[i].Name {
					t.Errorf("hop %d is %v, want %s", i, h, path[i].Name)
				}
			}
			return
		}
		t.Fatal("events ended")
	})
	t.Run("usage", func(t *testing.T) {
		u, err := nw.Node("relay0").Usage()
		if err != nil || u.CPU <= 0 || u.RSS < 1<<20 {
			t.Errorf("usage %+v, %v", u, err)
		}
	})
	t.Run("restart", func(t *testing.T) {
		n := nw.Node("relay2")
		old := n.PID()
		if err := n.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if n.PID() == old || n.PID() == 0 {
			t.Errorf("process %d is now %d", old, n.PID())
		}
		if err := syscall.Kill(old, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the old process: %v", err)
		}
		if err := n.AwaitConsensus(ctx, nw.Routers()...); err != nil {
			t.Error(err)
		}
	})
	t.Run("no warnings", func(t *testing.T) {
		for _, n := range nw.Nodes {
			w, err := n.Warnings(0)
			if err != nil {
				t.Error(err)
			}
			for _, line := range w {
				t.Errorf("%s: %s", n.Name, line)
			}
		}
	})
	t.Run("an authority down, and a vote", func(t *testing.T) {
		if err := nw.Node("auth2").Kill(); err != nil {
			t.Fatal(err)
		}
		if err := nw.Vote(ctx, nw.Node("relay0"), nw.Node("exit0")); err != nil {
			t.Error(err)
		}
	})
	t.Run("close", func(t *testing.T) {
		var pids []int
		for _, n := range nw.Nodes {
			if pid := n.PID(); pid != 0 {
				pids = append(pids, pid)
			}
		}
		if len(pids) != len(nw.Nodes)-1 {
			t.Errorf("%d of %d processes run", len(pids), len(nw.Nodes))
		}
		if err := nw.Close(); err != nil {
			t.Error(err)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d after Close: %v", pid, err)
			}
		}
		if _, err := os.Stat(nw.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after Close: %v", nw.Dir, err)
		}
	})
}

func TestWithoutCGO(t *testing.T) {
	nw := ctortest.Network(t, ctor.Options{Authorities: 1, Relays: 2, Exits: 1, WithoutCGO: true, Scheduler: "Vanilla", DistinctSubnets: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := nw.Node("auth0").Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cons, err := c.GetInfo(ctx, "dir/status-vote/current/consensus-microdesc")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(cons, "Padding=2 Relay=2-4\n") != len(nw.Routers()) {
		t.Errorf("not every relay says Relay=2-4:\n%s", cons)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, opts := range []ctor.Options{
		{Relays: 1000},
		{VotingInterval: time.Second},
		{IPv6: true, DistinctSubnets: true},
		{TorPath: "/nonexistent/tor"},
	} {
		if nw, err := ctor.Start(t.Context(), opts); err == nil {
			nw.Close()
			t.Errorf("%+v was accepted", opts)
		}
	}
}

// TestStartFails shows that a node's own words come back, and nothing is left.
func TestStartFails(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	dir := t.TempDir()
	_, err = ctor.Start(t.Context(), ctor.Options{Authorities: 1, Dir: dir,
		Extra: map[string][]string{"auth0": {"NoSuchOption 1"}}})
	if err == nil || !strings.Contains(err.Error(), "NoSuchOption") {
		t.Errorf("error: %v", err)
	}
}
