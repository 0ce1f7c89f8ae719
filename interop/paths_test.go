package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// testPinned uses every relay at every position that it can have, and checks
// which relays carried the bytes.
func testPinned(t *testing.T, s subject, nw *ctor.Network) {
	if s.quirks().noPins {
		t.Skip(s.name(), "cannot be told its relays")
	}
	relays, exits := nw.ByRole(ctor.Relay), nw.ByRole(ctor.Exit)
	all := append(slices.Clone(relays), exits...)
	listedGuards(t, nw, all, len(all))
	// Each row of a rotation has each relay once as guard and once as middle;
	// the exit is one that the row leaves free.
	for i, guard := range all {
		middle := all[(i+1)%len(all)]
		free := slices.DeleteFunc(slices.Clone(exits), func(n *ctor.Node) bool { return n == guard || n == middle })
		if len(free) == 0 {
			middle = relays[0]
			free = slices.DeleteFunc(slices.Clone(exits), func(n *ctor.Node) bool { return n == guard })
		}
		exit := free[i%len(free)]
		t.Run(fmt.Sprintf("%s-%s-%s", guard.Name, middle.Name, exit.Name), func(t *testing.T) {
			pin := []*ctor.Node{guard, middle, exit}
			p := start(t, s, nw, startOptions{dir: t.TempDir(), pin: pin})
			ctx := bounded(t, patience)
			before := traffic(t, ctx, all)
			const n = 4 << 20
			if err := download(ctx, p.dialer(), shared.target.Addr(target.Source), n); err != nil {
				t.Fatal(err)
			}
			if got := exitThrough(t, ctx, nw, p.dialer()); got != exit {
				t.Errorf("the target was reached from %s, want %s", got.Name, exit.Name)
			}
			if !slices.Contains(p.firstHops(t, nw), guard) {
				t.Errorf("the client is connected to %v, not to %s", names(p.firstHops(t, nw)), guard.Name)
			}
			for node, carried := range traffic(t, ctx, all) {
				carried -= before[node]
				if slices.Contains(pin, node) != (carried > n) {
					t.Errorf("%s carried %d bytes of %d", node.Name, carried, n)
				}
			}
		})
	}
}

// listedGuards returns the relays with all the flags of a guard in the consensus,
// and waits until there are n at least. On a slow machine a vote may miss one;
// the next vote has it.
func listedGuards(t *testing.T, nw *ctor.Network, relays []*ctor.Node, n int) []*ctor.Node {
	t.Helper()
	ctx := bounded(t, patience)
	control, err := nw.Authorities()[0].Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	for {
		var guards []*ctor.Node
		for _, r := range relays {
			status, err := control.GetInfo(ctx, "ns/id/"+r.ID.RSA.String())
			if err != nil {
				t.Fatal(err)
			}
			_, flags, _ := strings.Cut(status, "\ns ")
			flags, _, _ = strings.Cut(flags, "\n")
			has := strings.Fields(flags)
			if !slices.ContainsFunc([]string{"Guard", "Stable", "Fast", "V2Dir"}, func(f string) bool { return !slices.Contains(has, f) }) {
				guards = append(guards, r)
			}
		}
		if len(guards) >= n {
			return guards
		}
		t.Logf("%d of %d relays are guards; another vote", len(guards), len(relays))
		if err := nw.Vote(ctx, relays...); err != nil {
			t.Fatal(err)
		}
	}
}

// traffic returns how many bytes each node has read, as it counts them.
func traffic(t *testing.T, ctx context.Context, nodes []*ctor.Node) map[*ctor.Node]int64 {
	t.Helper()
	out := map[*ctor.Node]int64{}
	for _, n := range nodes {
		c, err := n.Control(ctx)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.GetInfo(ctx, "traffic/read")
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if out[n], err = strconv.ParseInt(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// exitThrough asks the target, through a client, for the address from which the
// request comes, and returns the exit that got the answer: a client may have to
// try several exits.
func exitThrough(t *testing.T, ctx context.Context, nw *ctor.Network, d socksclient.Dialer) *ctor.Node {
	t.Helper()
	c, err := dial(ctx, d, shared.target.Addr(target.Web))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /whence HTTP/1.1\r\nHost: target\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	from, err := netip.ParseAddrPort(string(text))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %q", res.Status, text)
	}
	return exitOf(t, nw, from)
}

// testIsolation: streams with one token share an exit; streams with different
// tokens do not all share one. One of the three exits may be the guard: of two,
// chance puts 40 tokens' streams on one in 1 of 2^39 runs. A client that prefers
// conflux sets may move a token to a set that became ready, once.
func testIsolation(t *testing.T, s subject, nw *ctor.Network, p *proxy) {
	ctx := bounded(t, patience)
	most := 0
	if s.quirks().hopsExits {
		most = 1
	}
	seen := map[*ctor.Node]bool{}
	for i := 0; i < 12 || len(seen) < 2 && i < 40; i++ {
		d := p.isolated(fmt.Sprint("token", i))
		by := []*ctor.Node{exitThrough(t, ctx, nw, d)}
		seen[by[0]] = true
		hops := 0
		for range 3 {
			other := exitThrough(t, ctx, nw, d)
			if other != by[len(by)-1] {
				hops++
			}
			by = append(by, other)
		}
		if hops > most {
			t.Errorf("one token's streams came from %v, one after another", names(by))
		}
	}
	if len(seen) < 2 {
		t.Errorf("forty tokens' streams came from %d exit", len(seen))
	}
}
