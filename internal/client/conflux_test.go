package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
)

// mute is a connection that delivers nothing while others hold mu.
type mute struct {
	net.Conn
	mu *sync.RWMutex
}

func (c mute) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return n, err
}

// TestExitLinksNothing: an exit that does not answer CONFLUX_LINK holds nobody for ever,
// and is not chosen again by those who waited for it.
func TestExitLinksNothing(t *testing.T) {
	c := isolated(t, netdir.Public(), refuse)
	live := *c.live.Load()
	live.StreamTimeout = 100 * time.Millisecond
	c.live.Store(&live)
	var mu sync.RWMutex
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		conn, err := simnet.Dial(ctx, addr)
		return mute{conn, &mu}, err
	})
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	exit := simnet.New(t, simnet.Options{})
	ch, err := m.Get(ctx, exit.Target)
	if err != nil {
		t.Fatal(err)
	}
	params := flow.DefaultParams()
	legs := make([]*Circ, 2)
	for i := range legs {
		circ, err := circuit.Create(ctx, c.env, ch, exit.Target, circuit.HopOptions{Congestion: true, Flow: &params})
		if err != nil {
			t.Fatal(err)
		}
		legs[i] = &Circ{Circuit: circ, client: c, path: &path.Path{Hops: []path.Hop{{Target: exit.Target}}}}
	}
	mu.Lock()
	defer mu.Unlock()
	_, err = c.linkLegs(ctx, legs[0], legs[1])
	var at *pool.HopError
	if !errors.As(err, &at) || at.Relay != exit.Target.RSA {
		t.Errorf("the exit is not named: %v", err)
	}
	for _, err := range []error{err, legs[0].Err(), legs[1].Err()} {
		if !errors.Is(err, errNotLinked) {
			t.Error(err)
		}
	}
}
