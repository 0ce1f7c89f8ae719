package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
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

// TestSetLegs: linked circuits become one set, whose circuits all say so; one whose exit takes too long is closed, and
// nothing is held against its guard.
func TestSetLegs(t *testing.T) {
	s := &sets{c: isolated(t, netdir.Public(), refuse), exit: simnet.New(t, simnet.Options{})}
	linking, err := circuit.NewLinking(cell.ConfluxHighThroughput)
	if err != nil {
		t.Fatal(err)
	}
	w := &setLegs{c: s.c, linking: linking}
	var legs []builtLeg
	told := make(chan *OpenCircuit, 3)
	for range 3 {
		m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
		t.Cleanup(m.Close)
		o, err := s.leg(withTimeout(t), m)
		if err != nil {
			t.Fatal(err)
		}
		o.OnClose(func(cause error) {
			o.ended(cause)
			told <- o
		})
		legs = append(legs, o)
	}
	for _, l := range legs[:2] {
		if err := w.link(withTimeout(t), l); err != nil {
			t.Fatal(err)
		}
	}
	s.c.times.use(func(e *cbt.Estimator) {
		p := cbt.DefaultParams()
		p.InitialTimeout = time.Nanosecond
		e.SetParams(p)
	})
	slow := legs[2].(*OpenCircuit)
	if err := w.link(withTimeout(t), slow); !errors.Is(err, circuit.ErrLinkSlow) || slow.Err() == nil {
		t.Error(err)
	}
	if got := <-told; got != slow || !slow.byUs {
		t.Error("the guard is blamed")
	}
	set, err := w.join(legs[:2])
	if err != nil {
		t.Fatal(err)
	}
	if n := set.Legs(); n != 2 || set.Last().Conflux() == nil {
		t.Errorf("%d legs", n)
	}
	for _, l := range append([]*OpenCircuit{set}, set.legs...) {
		if p := l.life.report().Purpose; p != InSet {
			t.Errorf("a leg is for %v", p)
		}
	}
	set.legs[0].Channel().Close(fault.New(fault.Network, "the link is gone"))
	<-set.legs[0].Done()
	if n := set.Legs(); n != 1 || set.Err() != nil {
		t.Errorf("%d legs of one", n)
	}
	set.Close()
}
