package peers

import (
	"crypto/ecdsa"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// claimed returns what a sidecar's record says of the node behind it: anybody can say so.
func claimed(key enode.Secp256k1, at devp2p.Onion3) *enode.Node {
	var r enr.Record
	r.Set(at)
	r.Set(enr.TCP(30303))
	r.Set(key)
	return enode.SignNull(&r, enode.PubkeyToIDV4((*ecdsa.PublicKey)(&key)))
}

// TestUnsignedNotKept: a record without a signature, which any peer can tell, leaves a file
// that can be read.
func TestUnsignedNotKept(t *testing.T) {
	m := idle(t, Config{})
	if err := m.Add(nodetest.Peer(t, newOnion(t)), "onr"); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(claimed(enode.Secp256k1(nodetest.Key(t).PublicKey), newOnion(t)), "onr"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "peers.json")
	if err := m.save(path); err != nil {
		t.Fatal(err)
	}
	again := idle(t, Config{})
	if err := again.load(path); err != nil || len(again.table) != 1 {
		t.Errorf("%v, %d nodes", err, len(again.table))
	}
}

// TestFalseClaim: a false claim keeps a node's true one out only until it has failed, and
// takes no place of one that works.
func TestFalseClaim(t *testing.T) {
	m := idle(t, Config{})
	key := enode.Secp256k1(nodetest.Key(t).PublicKey)
	lie, truth := claimed(key, newOnion(t)), claimed(key, newOnion(t))
	at := func() *enode.Node { return m.table[lie.ID()].node }
	for _, n := range []*enode.Node{lie, truth} {
		if err := m.Add(n, "onr"); err != nil || at() != lie {
			t.Fatalf("%v, %v", err, at())
		}
	}
	m.table[lie.ID()].failures = 1
	for _, n := range []*enode.Node{truth, lie} {
		if err := m.Add(n, "onr"); err != nil || at() != truth {
			t.Fatalf("%v, %v", err, at())
		}
	}
}

// TestFalseOnion: nodes that claim another's onion keep its node out only until one failed.
func TestFalseOnion(t *testing.T) {
	m := idle(t, Config{})
	o := newOnion(t)
	var first *enode.Node
	for range maxPerOnion {
		n := nodetest.Peer(t, o)
		first = n
		if err := m.Add(n, "onr"); err != nil {
			t.Fatal(err)
		}
	}
	m.table[first.ID()].failures = 1
	truth := nodetest.Peer(t, o)
	if err := m.Add(truth, "onr"); err != nil || m.table[truth.ID()] == nil || m.table[first.ID()] != nil || m.onions[o.Addr()] != maxPerOnion {
		t.Errorf("%v, %v", err, m.onions)
	}
}
