package client

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
)

// stubs builds circuits that look as if they had three hops.
type stubs struct {
	c     *Client
	m     *channel.Manager
	relay linkspec.Target
}

func (s *stubs) Build(ctx context.Context, _ pool.Spec) (pool.PooledCircuit, error) {
	ch, err := s.m.Get(ctx, s.relay)
	if err != nil {
		return nil, err
	}
	engine, err := circuit.Create(ctx, s.c.env, ch, s.relay, circuit.HopOptions{})
	if err != nil {
		return nil, err
	}
	p := &path.Path{}
	for i := range byte(path.DefaultHops) {
		p.Hops = append(p.Hops, path.Hop{Target: linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{i + 1}}}})
	}
	circ := &OpenCircuit{Circuit: engine, id: s.c.ids.Add(1), client: s.c, path: p, life: lifeOf(s.c, p)}
	s.c.circs.add(circ)
	engine.OnClose(circ.ended)
	return circ, nil
}

// TestOnionCircuitsArePrivate: a circuit for an onion service, to a directory, a rendezvous point
// or an introduction point, is one attempt's alone, and ends with it, also if that is given up
// before the circuit has led anywhere.
func TestOnionCircuitsArePrivate(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	b := &stubs{c: c, m: channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial), relay: simnet.New(t, simnet.Options{}).Target}
	t.Cleanup(b.m.Close)
	c.pool.Store(pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, b))
	close(c.poolReady)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	seen := map[uint64]bool{}
	for range 5 {
		circ, err := clientNetwork{c}.Internal(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		if seen[circ.ID()] {
			t.Fatal("a circuit was used twice")
		}
		seen[circ.ID()] = true
		circ.Close()
		select {
		case <-circ.Engine().Done():
		case <-ctx.Done():
			t.Fatal("it outlived its owner")
		}
	}
}
