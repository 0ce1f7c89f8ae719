package pool

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/isolation"
)

// TestEachIsolation: whatever sets two keys apart keeps their streams on circuits of their own,
// whichever came first.
func TestEachIsolation(t *testing.T) {
	all := isolation.ByClientAddr | isolation.ByProtocol | isolation.ByDestAddr | isolation.ByDestPort
	keys := map[string]isolation.Key{
		"none":            {},
		"a child":         {Child: 1},
		"another child":   {Child: 2},
		"a listener":      {Listener: "a"},
		"a user":          {Auth: isolation.NewAuth("a")},
		"a client":        {By: isolation.ByClientAddr, Client: netip.MustParseAddr("127.0.0.1")},
		"another client":  {By: isolation.ByClientAddr, Client: netip.MustParseAddr("127.0.0.2")},
		"a protocol":      {By: isolation.ByProtocol, Protocol: "socks5"},
		"a host":          {By: isolation.ByDestAddr, Host: "a.test"},
		"another host":    {By: isolation.ByDestAddr, Host: "b.test"},
		"a port":          {By: isolation.ByDestPort, Port: 443},
		"all, and a host": {By: all, Host: "a.test"},
	}
	for a, first := range keys {
		for b, second := range keys {
			run(t, bare(), &fakeBuilder{}, func(p *Pool) {
				x, y := acquire(t, p, to(443, first)), acquire(t, p, to(443, second))
				if shared := x.Circuit == y.Circuit; shared != (a == b) {
					t.Errorf("%s, then %s: one circuit: %v", a, b, shared)
				}
			})
		}
	}
}

// TestNewIdentityWhileBuilding: a circuit that was being built when a new identity was asked
// for is not used, although its builder finishes it all the same.
func TestNewIdentityWhileBuilding(t *testing.T) {
	var hold chan struct{}
	b := &fakeBuilder{}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if n == 0 {
			<-hold
		}
		return circuit(n, s), nil
	}
	synctest.Test(t, func(t *testing.T) {
		hold = make(chan struct{})
		p := New(bare(), b)
		defer p.Close()
		got := make(chan *Lease, 1)
		go func() { got <- acquire(t, p, to(443, key("a"))) }()
		synctest.Wait()
		p.NewIdentity()
		l := <-got
		close(hold)
		synctest.Wait()
		time.Sleep(time.Second)
		if n := b.launched(); n != 2 || l.Circuit != PooledCircuit(b.circuits[0]) || len(b.circuits) != 2 {
			t.Fatalf("%d launches, %d circuits", n, len(b.circuits))
		}
		if old := b.circuits[1]; !old.closed() || p.Status().Clean != 0 {
			t.Errorf("the circuit of the old identity is there: %+v", p.Status())
		}
	})
}
