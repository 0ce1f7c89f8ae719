package pool

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/isolation"
)

// TestIsolationOutlivesItsStream: a circuit belongs to the isolation key of its first stream,
// also when that stream has gone, and however its owner and an isolated child of that differ.
func TestIsolationOutlivesItsStream(t *testing.T) {
	for name, keys := range map[string][2]isolation.Key{
		"another listener":         {key("a"), key("b")},
		"a child, then its owner":  {{Child: 1}, {}},
		"an owner, then its child": {{}, {Child: 1}},
		"two children":             {{Child: 1}, {Child: 2}},
		"a user, then none":        {{Auth: isolation.NewAuth("x")}, {}},
		"a country, then another":  {{Country: "de"}, {Country: "fr"}},
		"streams on their own":     {{Stream: 1}, {Stream: 2}},
		"a host, then another":     {{By: isolation.ByDestAddr, Host: "a"}, {By: isolation.ByDestAddr, Host: "b"}},
	} {
		for _, internal := range []bool{false, true} {
			b := &fakeBuilder{took: time.Second}
			run(t, bare(), b, func(p *Pool) {
				ask := func(k isolation.Key) *Lease {
					return acquire(t, p, Request{Key: k, Dest: to(443, k).Dest, Internal: internal})
				}
				first := ask(keys[0])
				first.Release() // its stream was cancelled
				other := ask(keys[1])
				if other.Circuit == first.Circuit {
					t.Errorf("%s, internal %v: it got the circuit of the first", name, internal)
				}
				other.Release()
				if again := ask(keys[0]); again.Circuit != first.Circuit {
					t.Errorf("%s, internal %v: the first key did not get its circuit", name, internal)
				}
			})
		}
	}
}

// TestPrivateOutlivesItsOwner: a private circuit that is given back has led somewhere, and is
// closed; nobody gets it.
func TestPrivateOutlivesItsOwner(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		r := Request{Internal: true, Private: true}
		first := acquire(t, p, r)
		first.Release()
		if !first.Circuit.(*fakeCircuit).closed() {
			t.Error("it is open")
		}
		if acquire(t, p, r).Circuit == first.Circuit || acquire(t, p, Request{Internal: true}).Circuit == first.Circuit {
			t.Error("another got it")
		}
	})
}

// TestNewIdentityDuringLaunches: a circuit that is being built when a new identity is asked for
// is used by nobody, even if it is complete before the builder hears of that.
func TestNewIdentityDuringLaunches(t *testing.T) {
	var deaf fakeBuilder
	deaf.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		time.Sleep(2 * time.Second) // and it looks at no context
		return circuit(n, s), nil
	}
	run(t, bare(), &deaf, func(p *Pool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, to(443, key("a"))); err == nil {
			t.Fatal("a circuit")
		}
		p.NewIdentity()
		second := acquire(t, p, to(443, key("a")))
		time.Sleep(5 * time.Second)
		if deaf.launched() != 2 || len(deaf.circuits) != 2 {
			t.Fatalf("%d launches, %d circuits", deaf.launched(), len(deaf.circuits))
		}
		if old := deaf.circuits[0]; !old.closed() || second.Circuit == PooledCircuit(old) {
			t.Error("the circuit from before the new identity is open, or in use")
		}
	})
}
