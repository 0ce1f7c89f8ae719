package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
)

// steps returns the steps of a circuit so far.
func (h *heard) circuitSteps(id uint64) (out []CircuitStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.circuits {
		if r.ID == id {
			out = append(out, r.Step)
		}
	}
	return out
}

// TestCircuitEndsOnce: the end of a circuit is told once, after which nothing comes, and one that was never built has failed.
func TestCircuitEndsOnce(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	h := listen(t, c)
	failed, closed := lifeOf(c), lifeOf(c)
	failed.over(CircuitClosed, nil)
	failed.over(CircuitFailed, errClosed)
	failed.built()
	failed.purpose(ForController)
	closed.built()
	closed.over(CircuitClosed, nil)
	closed.further(Router{})
	if got := h.circuitSteps(failed.r.ID); !slices.Equal(got, []CircuitStep{CircuitLaunched, CircuitFailed}) {
		t.Error(got)
	}
	if got := h.circuitSteps(closed.r.ID); !slices.Equal(got, []CircuitStep{CircuitLaunched, CircuitBuilt, CircuitClosed}) {
		t.Error(got)
	}
}

// TestPurposeWhileBuilding: a circuit that becomes a controller's while it is being built is one for the pool, and a
// conflux set does not change that.
func TestPurposeWhileBuilding(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	l := lifeOf(c)
	circ := &OpenCircuit{life: l}
	if circ.Steered() {
		t.Fatal("it is a controller's already")
	}
	if err := c.SetPurpose(l.r.ID, ForController); err != nil || !circ.Steered() {
		t.Error(err)
	}
	l.purpose(InSet)
	if !circ.Steered() {
		t.Error("a set took it back")
	}
	l.over(CircuitFailed, errClosed)
}

// built makes a path of relays that answer, and a client that reaches them.
func reachable(t *testing.T) (*Client, *path.Path) {
	guard := simnet.New(t, simnet.Options{}).Target
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		if addr != guard.Addrs[0] {
			return refuse(ctx, addr) // a directory
		}
		return simnet.Dial(ctx, addr)
	})
	p := &path.Path{Hops: []path.Hop{{Target: guard}}}
	for len(p.Hops) < path.DefaultHops {
		p.Hops = append(p.Hops, path.Hop{Target: simnet.New(t, simnet.Options{}).Target})
	}
	return c, p
}

// TestKeptBeforeBuilt: when who watches hears that a controller's circuit is built, the pool has it: streams can be
// attached at once.
func TestKeptBeforeBuilt(t *testing.T) {
	c, p := reachable(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var kept, told atomic.Bool
	id := c.ids.Add(1)
	t.Cleanup(c.Watch(&Watcher{Circuit: func(r CircuitReport) {
		if r.ID == id && r.Step == CircuitBuilt {
			told.Store(kept.Load())
		}
	}}))
	circ, err := c.buildOver(ctx, p, &pool.Spec{}, order{purpose: ForController, id: id, keep: func(*OpenCircuit) error { kept.Store(true); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	circ.Close()
	if !kept.Load() || !told.Load() {
		t.Errorf("kept %v, and then told %v", kept.Load(), told.Load())
	}
	h := listen(t, c)
	if _, err := c.buildOver(ctx, p, &pool.Spec{}, order{purpose: ForController, id: c.ids.Add(1), keep: func(*OpenCircuit) error { return errClosed }}); !errors.Is(err, errClosed) {
		t.Errorf("nobody keeps it: %v", err)
	}
	if r := h.circuit(t, c.ids.Load(), CircuitFailed); slices.Contains(h.circuitSteps(r.ID), CircuitBuilt) {
		t.Error("a circuit that nobody keeps was told of as built")
	}
}
