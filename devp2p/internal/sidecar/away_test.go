package sidecar

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// TestOpenedWhileAway: a connection to an onion that is there while the node is away, or hangs,
// is not kept, because the node is not told of it: it is opened again when the node is back.
func TestOpenedWhileAway(t *testing.T) {
	nw := &fakeNet{}
	ln, err := nw.ListenOnion(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tr, err := devp2p.New(devp2p.Config{Onions: nw})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s := &Sidecar{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	dest := nodeOf(t, ln.Onion())
	if err := s.known.add(dest, "test", false); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]admin{"away": nil, "hung": &hungNode{}} {
		st := &state{admin: a, forwards: map[enode.ID]*opened{}, opening: 1}
		c := s.known.take(1, nil, time.Now())[0]
		f, err := openForward(t.Context(), tr, dest, func() {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // for the node that hangs
		s.take(ctx, st, &opened{forward: f, c: c})
		cancel()
		if len(st.forwards) != 0 {
			t.Errorf("%s: a forward that the node does not know is kept", name)
			s.closeForward(st, st.forwards[c.id], true)
		}
		if c.used || c.failures != 0 {
			t.Errorf("%s: the onion is to blame", name)
		}
		s.known.done(c, true, time.Now())
	}
}

// nodeOf makes a node at an onion.
func nodeOf(t *testing.T, onion devp2p.Onion3) *enode.Node {
	t.Helper()
	var r enr.Record
	key := nodetest.Key(t)
	r.Set(onion)
	r.Set(enr.TCP(1))
	r.Set(enode.Secp256k1(key.PublicKey))
	return enode.SignNull(&r, enode.PubkeyToIDV4(&key.PublicKey))
}
