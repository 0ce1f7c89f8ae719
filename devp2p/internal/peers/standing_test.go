package peers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/devp2p/internal/onionsim"
)

// TestFaultsOfOneNode: a node that breaks many rules before its connection has ended is one
// node, and shuts nobody else of its circuit out.
func TestFaultsOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := idle(t, Config{})
		m.ended = true // nothing is connected
		id := enode.ID{1}
		m.live[id] = &conn{state: connected, inbound: true, id: id, group: "circuit a"}
		for range 100 {
			m.Score(id, Useless)
		}
		if m.banned.has(id, time.Now()).IsZero() {
			t.Error("the node is not banned")
		}
		m.ended = false
		if m.admit(newCircuit("a"), true) == nil {
			t.Error("one node has shut its circuit")
		}
	})
}

// TestBackBeforeTheLeave: the server may tell of a node's new connection before it tells that
// the old one has ended. The old one must not stay counted.
func TestBackBeforeTheLeave(t *testing.T) {
	m := idle(t, Config{})
	id := enode.ID{1}
	var conns []*conn
	for range 3 {
		c := m.newConn(nil, true, "circuit a", devp2p.Route{Onion: true})
		conns = append(conns, c)
		m.joined(id, c.addr.String())
	}
	m.left(id, conns[0].addr.String(), "x")
	m.left(id, conns[1].addr.String(), "x")
	if m.live[id] != conns[2] || m.groups["circuit a"] != 1 || len(m.conns) != 1 {
		t.Errorf("%d connections, %v", len(m.conns), m.groups)
	}
	m.left(id, conns[2].addr.String(), "x")
	if len(m.live) != 0 || len(m.conns) != 0 || len(m.groups) != 0 || m.pending != 0 {
		t.Errorf("%d live, %d connections, %v", len(m.live), len(m.conns), m.groups)
	}
}

// TestTrustedWhenFull: a trusted node comes in when all places are taken, and none can be
// given away. Another one does not.
func TestTrustedWhenFull(t *testing.T) {
	ctx := limited(t)
	nw := onionsim.New()
	other := run(t, nw.Node(), Config{})
	key := nodetest.Key(t)
	trusted := enode.NewV4(&key.PublicKey, nil, 0, 0)
	a := run(t, nw.Node(), Config{MaxPeers: 1, Static: []*enode.Node{selfWithOnion(t, ctx, other)}, Trusted: []*enode.Node{trusted}})
	a.talk.wait(t, ctx, 1)
	self := selfWithOnion(t, ctx, a)
	guest := func(cfg Config) *testNode {
		cfg.NoOnion, cfg.BackoffMin, cfg.BackoffMax = true, time.Hour, time.Hour
		n := run(t, nw.Node(), cfg)
		if err := n.Add(self, "test"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	b := guest(Config{Key: key})
	await(t, ctx, "the trusted node", func() bool { _, ok := a.RouteOf(trusted.ID()); return ok })
	c := guest(Config{})
	await(t, ctx, "a stranger to be turned away", func() bool { return c.Status()[0].Problem != "" })
	if s := b.Status()[0]; s.State != Connected {
		t.Errorf("the trusted node was sent away: %s", s.Problem)
	}
}
