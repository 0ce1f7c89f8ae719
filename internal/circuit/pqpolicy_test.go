package circuit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

const classical = "Link=4-5 LinkAuth=3 Relay=2-6 FlowCtrl=1-2 Conflux=1"

// route builds a circuit under a policy.
func route(t *testing.T, m *channel.Manager, policy circuit.PQPolicy, relays ...*simnet.Relay) (*circuit.Circuit, error) {
	t.Helper()
	r := circuit.Route{Strict: policy.Strict()}
	for _, relay := range relays {
		r.Targets = append(r.Targets, relay.Target)
	}
	var err error
	if r.Protect, err = policy.Plan(handshake.PQ768, r.Targets); err != nil {
		return nil, err
	}
	ch, err := m.Get(deadline(t), r.Targets[0])
	if err != nil {
		t.Fatal(err)
	}
	return circuit.Build(deadline(t), env, ch, &r)
}

func protections(c *circuit.Circuit) string {
	var out []string
	for _, h := range c.Hops() {
		out = append(out, h.Protection().String())
	}
	return strings.Join(out, " ")
}

// TestMixedPath: a classical relay between two that speak everything, and one
// that speaks carriage B alone, under each policy.
func TestMixedPath(t *testing.T) {
	full, tor := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{Proto: classical})
	last := simnet.New(t, simnet.Options{})
	rekey := simnet.New(t, simnet.Options{Proto: classical + " ChivePQ=8"})
	m := newClient(t)
	for _, c := range []struct {
		policy circuit.PQPolicy
		path   []*simnet.Relay
		want   string
	}{
		{circuit.PQPrefer, []*simnet.Relay{full, tor, last}, "pq768/A none pq768/B"},
		{circuit.PQRequireOne, []*simnet.Relay{tor, rekey, full}, "none pq768/B pq768/B"},
		{circuit.PQOff, []*simnet.Relay{full, tor, last}, "none none none"},
		{circuit.PQRequireAll, []*simnet.Relay{rekey, full, last}, "pq768/B pq768/B pq768/A"},
	} {
		circ, err := route(t, m, c.policy, c.path...)
		if err != nil {
			t.Fatal(c.want, err)
		}
		if got := protections(circ); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		transfer(t, circ)
		circ.Close(cell.DestroyNone, nil)
	}
}

// TestNoClassicalRetry: a relay that advertises and then fails costs the
// circuit, at whichever hop and by either carriage; nothing else is tried with
// it.
func TestNoClassicalRetry(t *testing.T) {
	honest := []*simnet.Relay{simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})}
	for name, proto := range map[string]string{"A": simnet.Protocols, "B": classical + " ChivePQ=8"} {
		for hop := range honest {
			t.Run(fmt.Sprintf("%s at hop %d", name, hop+1), func(t *testing.T) {
				var opened atomic.Int32
				path := slices.Clone(honest)
				path[hop] = simnet.New(t, simnet.Options{Proto: proto, NoPQ: true, Accepted: func(*channel.CircuitEnd) { opened.Add(1) }})
				c, err := route(t, newClient(t), circuit.PQPrefer, path...)
				var at *circuit.BuildError
				if c != nil || !errors.As(err, &at) || at.Hop != hop+1 && (name == "A" || at.Hop != 0) {
					t.Error(err)
				}
				if n := opened.Load(); n != 1 {
					t.Errorf("the relay saw %d circuits", n)
				}
			})
		}
	}
}

// TestStrictBeforeExtend: in strict mode nobody hears of the next relay before
// the hop is rekeyed: with a hop that fails its rekey, the next sees nothing.
func TestStrictBeforeExtend(t *testing.T) {
	for _, strict := range []bool{true, false} {
		var opened atomic.Int32
		liar := simnet.New(t, simnet.Options{Proto: classical + " ChivePQ=8", NoPQ: true})
		next := simnet.New(t, simnet.Options{Accepted: func(*channel.CircuitEnd) { opened.Add(1) }})
		m := newClient(t)
		ch, err := m.Get(deadline(t), liar.Target)
		if err != nil {
			t.Fatal(err)
		}
		r := &circuit.Route{Targets: []linkspec.Target{liar.Target, next.Target}, Strict: strict}
		if r.Protect, err = circuit.PQRequireAll.Plan(handshake.PQ768, r.Targets); err != nil {
			t.Fatal(err)
		}
		if _, err := circuit.Build(deadline(t), env, ch, r); err == nil {
			t.Fatal("built")
		}
		if saw := opened.Load() > 0; saw == strict {
			t.Errorf("strict %v: the next relay was extended to: %v", strict, saw)
		}
	}
}
