package peers

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// TestBurst: nodes that come to a full node at the same time each take a place of another one,
// though none of these is gone yet. Otherwise there would be more than the limit from then on,
// and the server would let nobody in.
func TestBurst(t *testing.T) {
	m := idle(t, Config{MaxPeers: 8})
	for i := range byte(8 + slack) {
		group := fmt.Sprint(i)
		if i >= 5 && i < 8 {
			group = "crowd" // its newest connection goes first
		}
		m.ended = false
		c := m.newConn(nil, true, group, devp2p.Route{})
		m.ended = true // the server is not asked
		m.joined(enode.ID{i}, c.addr.String())
	}
	stay := 0
	for _, c := range m.live {
		if !c.leaving {
			stay++
		}
	}
	if stay != 8 {
		t.Errorf("%d peers stay", stay)
	}
}

// TestDialsTakePlaces: connections that are under way count for the limit of all.
func TestDialsTakePlaces(t *testing.T) {
	m := idle(t, Config{MaxPeers: 3, MaxOutbound: 3})
	for range 3 {
		if err := m.Add(nodetest.Peer(t, newOnion(t)), "test"); err != nil {
			t.Fatal(err)
		}
	}
	c := m.newConn(nil, true, "", devp2p.Route{})
	m.joined(enode.ID{1}, c.addr.String())
	dials := 0
	for e := m.pick(time.Now()); e != nil; e = m.pick(time.Now()) {
		e.dialing = true
		m.dials++
		dials++
	}
	if dials != 2 {
		t.Errorf("%d dials for two places", dials)
	}
}
