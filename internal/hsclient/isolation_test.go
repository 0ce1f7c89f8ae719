package hsclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

// simulatedCircuit is a circuit that is open.
type simulatedCircuit struct{ *circuit.Circuit }

func (o simulatedCircuit) Engine() *circuit.Circuit { return o.Circuit }
func (o simulatedCircuit) ID() uint64               { return 1 }
func (o simulatedCircuit) Last() linkspec.Target    { return linkspec.Target{} }
func (o simulatedCircuit) Close()                   { o.Circuit.Close(cell.DestroyNone, errClosed) }

func newOpenCirc(t *testing.T) simulatedCircuit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	relay := simnet.New(t, simnet.Options{}).Target
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ch, err := m.Get(ctx, relay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, relay, circuit.HopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return simulatedCircuit{c}
}

// TestIsolationOutlivesItsStream: a circuit to a service belongs to the isolation key for which
// it was made, also when the stream that asked for it has gone: a service, or a directory that
// makes clients wait until they give up, could otherwise link identities. If the stream has gone
// before the circuit is there, the circuit ends.
func TestIsolationOutlivesItsStream(t *testing.T) {
	c := newClient(t, &fakeNet{})
	service := ident.Ed25519ID{1}
	one, two := isolation.Key{Auth: isolation.NewAuth("one")}, isolation.Key{Auth: isolation.NewAuth("two")}
	met := func(users int) simulatedCircuit {
		circ := newOpenCirc(t)
		m := &connection{c: c, key: connKey{service, one}, cancel: func(error) {}, ready: make(chan struct{}), users: users}
		c.mu.Lock()
		c.conns[m.key] = m
		c.mu.Unlock()
		m.finish(circ, circ.Circuit.Last(), nil)
		return circ
	}
	circ := met(1)
	(&Lease{conn: c.conns[connKey{service, one}]}).Release() // the first stream has gone
	for name, key := range map[string]isolation.Key{"another": two, "none": {}} {
		if l, err := c.Acquire(t.Context(), service, key, false); l != nil || err == nil {
			t.Errorf("%s: it has the circuit of the first key: %v", name, err)
		}
	}
	l, err := c.Acquire(t.Context(), service, one, false)
	if err != nil || l.Circuit() != OwnedCircuit(circ) {
		t.Fatalf("the same key: %v", err)
	}
	l.Retire()
	l.Release()
	if circ := met(0); !errors.Is(circ.Err(), errClosed) {
		t.Errorf("a circuit that nobody waits for: %v", circ.Err())
	}
}
