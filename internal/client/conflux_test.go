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
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
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
	legs := make([]*OpenCircuit, 2)
	for i := range legs {
		circ, err := circuit.Create(ctx, c.env, ch, exit.Target, circuit.HopOptions{Congestion: true, Flow: &params})
		if err != nil {
			t.Fatal(err)
		}
		legs[i] = &OpenCircuit{Circuit: circ, client: c, life: lifeOf(c), path: &path.Path{Hops: []path.Hop{{Target: exit.Target}}}}
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

// sets builds conflux sets of two legs, each over a link of its own, to one exit.
type sets struct {
	c     *Client
	exit  *simnet.Relay
	links []*channel.Manager
	open  netdir.Relay // an exit of a directory, for its policy
}

func (s *sets) leg(ctx context.Context, m *channel.Manager) (*OpenCircuit, error) {
	ch, err := m.Get(ctx, s.exit.Target)
	if err != nil {
		return nil, err
	}
	circ, err := circuit.Create(ctx, s.c.env, ch, s.exit.Target, circuit.HopOptions{Congestion: true})
	if err != nil {
		return nil, err
	}
	return &OpenCircuit{Circuit: circ, client: s.c, life: lifeOf(s.c), id: s.c.ids.Add(1), path: &path.Path{Hops: []path.Hop{{Relay: s.open, Target: s.exit.Target}}}}, nil
}

func (s *sets) Build(ctx context.Context, _ pool.Spec) (pool.PooledCircuit, error) {
	first, err := s.leg(ctx, s.links[0])
	if err != nil {
		return nil, err
	}
	second, err := s.leg(ctx, s.links[1])
	if err != nil {
		return nil, err
	}
	return s.c.linkSet(ctx, first, second)
}

// TestSetHasOneIsolation: a set belongs to one isolation, with all its legs: no other stream
// gets any of them, not before a leg is lost and not afterwards, and the lost leg is closed.
func TestSetHasOneIsolation(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	s := &sets{c: isolated(t, netdir.Public(), refuse), exit: simnet.New(t, simnet.Options{})}
	for r := range d.All() {
		if path.Allows(r, path.Dest{Port: 443}) {
			s.open = r
		}
	}
	for range 2 {
		m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
		t.Cleanup(m.Close)
		s.links = append(s.links, m)
	}
	p := pool.New(pool.Config{InitialPorts: []uint16{}, PerPort: -1}, s)
	defer p.Close()
	take := func(user string) *OpenCircuit {
		l, err := p.Acquire(withTimeout(t), pool.Request{Dest: path.Dest{Port: 443}, Key: isolation.Key{Auth: isolation.NewAuth(user)}})
		if err != nil {
			t.Fatal(err)
		}
		return l.Circuit.(*OpenCircuit)
	}
	owner := map[*circuit.Circuit]string{}
	check := func(user string, c *OpenCircuit) {
		t.Helper()
		for _, leg := range c.Last().Conflux().Legs() {
			if o, known := owner[leg]; known && o != user {
				t.Errorf("a leg of %s's set serves %s", o, user)
			}
			owner[leg] = user
		}
	}
	a, b := take("a"), take("b")
	check("a", a)
	check("b", b)
	if again := take("a"); again != a || len(owner) != 4 {
		t.Errorf("another set for the same isolation, or %d legs", len(owner))
	}
	lost := a.legs[0]
	lost.Channel().Close(fault.New(fault.Network, "the link is gone"))
	<-lost.Done()
	for _, user := range []string{"c", "a", "b"} {
		c := take(user)
		check(user, c)
		if c == lost || c.Circuit == lost.Circuit {
			t.Errorf("%s got the lost leg", user)
		}
	}
}
