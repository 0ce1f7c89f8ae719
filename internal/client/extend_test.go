package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
)

// pooled builds a circuit over relays that answer, and gives it to a pool.
func pooled(t *testing.T) (*Client, *OpenCircuit, *heard) {
	t.Helper()
	c, p := reachable(t)
	c.pool.Store(pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, &exits{}))
	h := listen(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	circ, err := c.buildOver(ctx, p, &pool.Spec{}, order{id: c.ids.Add(1), keep: func(circ *OpenCircuit) error { return c.pool.Load().Adopt(circ) }})
	if err != nil {
		t.Fatal(err)
	}
	return c, circ, h
}

func furtherHops(t *testing.T, n int) (out []path.Hop) {
	for range n {
		out = append(out, path.Hop{Target: simnet.New(t, simnet.Options{}).Target})
	}
	return out
}

// stepsAfter waits for a step to come for the n-th time, and returns all steps until then.
func (h *heard) stepsAfter(t *testing.T, id uint64, step CircuitStep, n int) []CircuitStep {
	t.Helper()
	for {
		all := h.circuitSteps(id)
		for i, count := 0, 0; i < len(all); i++ {
			if all[i] == step {
				count++
			}
			if count == n {
				return all[:i+1]
			}
		}
		select {
		case <-h.more:
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
	}
}

// TestExtendCircuit: a circuit that is there gets the hops of a controller's orders, one order after the other, and who
// watches hears of each. Streams that the client had given to it still leave it at the exit that was chosen for them.
func TestExtendCircuit(t *testing.T) {
	c, circ, h := pooled(t)
	more := furtherHops(t, 3)
	for i, order := range [][]path.Hop{more[:2], more[2:]} {
		if err := circ.life.add(order); err != nil {
			t.Fatal(err)
		}
		h.stepsAfter(t, circ.id, CircuitBuilt, i+2)
	}
	want := []CircuitStep{CircuitLaunched, CircuitExtended, CircuitExtended, CircuitExtended, CircuitBuilt, CircuitExtended, CircuitExtended, CircuitBuilt, CircuitExtended, CircuitBuilt}
	if got := h.stepsAfter(t, circ.id, CircuitBuilt, 3); !slices.Equal(got, want) {
		t.Errorf("steps %v", got)
	}
	var ids []ident.RSAID
	for _, hop := range slices.Concat(circ.path.Hops, more) {
		ids = append(ids, hop.Target.RSA)
	}
	if got := circ.Relays(); !slices.Equal(got, ids) || len(circ.Hops()) != 6 || circ.Exit() != ids[5] {
		t.Errorf("%d hops, %d in the engine", len(got), len(circ.Hops()))
	}
	var told []ident.RSAID
	for _, r := range circ.life.report().Path {
		told = append(told, r.ID)
	}
	if !slices.Equal(told, ids) {
		t.Error("the events tell another path")
	}
	if (attachment{}).last(circ) != circ.Hops()[2] || (attachment{circ: circ}).last(circ) != circ.Hops()[5] {
		t.Error("a stream leaves at another hop")
	}
	if n := c.steered.Load(); n != 1 {
		t.Errorf("%d circuits count as steered", n)
	}
	circ.Close()
	for c.steered.Load() != 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("it counts for ever")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestExtendRefused: what relays would refuse, or what is not the controller's, is refused before anything of it is sent.
func TestExtendRefused(t *testing.T) {
	c, circ, h := pooled(t)
	l, more := circ.life, furtherHops(t, 1)
	hops := circ.path.Hops
	for name, x := range map[string]struct {
		hops []path.Hop
		want error
	}{
		"itself": {hops[2:], ErrLongPath},
		"back":   {hops[1:2], ErrLongPath},
		"to and": {[]path.Hop{more[0], hops[2]}, ErrLongPath},
	} {
		if err := l.add(x.hops); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := slices.Repeat([]path.Hop{more[0], hops[0], hops[1]}, 2) // it may have cells for these
	if err := l.add(long); !errors.Is(err, ErrLongPath) && !errors.Is(err, ErrNotExtensible) {
		t.Error(err)
	}
	for range maxSteered {
		c.steered.Add(1)
	}
	if err := l.add(more); !errors.Is(err, ErrManyCircuits) || l.orders != nil {
		t.Error(err)
	}
	c.steered.Store(0)
	if _, err := c.NewCircuit(nil, ForStreams); err == nil {
		t.Error("a circuit without a directory")
	}
	if n := c.steered.Load(); n != 0 {
		t.Errorf("%d circuits count as steered", n)
	}
	if err := c.ExtendCircuit(circ.id, nil); !errors.Is(err, ErrLongPath) {
		t.Error(err)
	}
	if err := c.ExtendCircuit(1<<40, make([]netdir.Relay, 1)); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	for _, p := range []Purpose{ForOnions, ForDirectory, ForSet, InSet} {
		l.purpose(p)
		if err := l.add(more); !errors.Is(err, ErrNotForThese) {
			t.Errorf("%v: %v", p, err)
		}
	}
	l.purpose(ForStreams)
	for circ.CanExtend(1) {
		if err := circ.Last().SendEarly(2, 99, nil); err != nil { // DATA, which nobody takes
			t.Fatal(err)
		}
	}
	if err := l.add(more); !errors.Is(err, ErrNotExtensible) {
		t.Error(err)
	}
	if err := c.CloseCircuit(circ.id, false); err != nil {
		t.Fatal(err)
	}
	h.circuit(t, circ.id, CircuitClosed)
	if err := l.add(more); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	early := lifeOf(c, circ.path)
	if err := early.add(more); !errors.Is(err, ErrNotOpen) {
		t.Errorf("the client builds it: %v", err)
	}
}

// TestExtendNotPooled: a circuit that the pool does not have is not a controller's, such as one that is to be a leg of a set.
func TestExtendNotPooled(t *testing.T) {
	c, p := reachable(t)
	c.pool.Store(pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, &exits{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	circ, err := c.buildOver(ctx, p, &pool.Spec{}, order{id: c.ids.Add(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer circ.Close()
	if err := circ.life.add(furtherHops(t, 1)); !errors.Is(err, ErrNotOpen) || len(circ.Hops()) != 3 {
		t.Error(err)
	}
}

// TestExtendFails: a relay that cannot be reached costs the circuit, which has failed, because it was not whole, and the guard
// is not to blame.
func TestExtendFails(t *testing.T) {
	_, circ, h := pooled(t)
	nobody := path.Hop{Target: linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{1}}, Ntor: circ.path.Hops[0].Target.Ntor, Addrs: circ.path.Hops[0].Target.Addrs}}
	if err := circ.life.add([]path.Hop{nobody}); err != nil {
		t.Fatal(err)
	}
	r := h.circuit(t, circ.id, CircuitFailed)
	if r.Err == nil || errors.Is(r.Err, ErrController) || len(r.Path) != 3 || !circ.excused.Load() {
		t.Errorf("%+v", r)
	}
	if _, err := circ.client.pool.Load().Take(circ, isolation.Key{}); err == nil {
		t.Error("the pool has it still")
	}
}
