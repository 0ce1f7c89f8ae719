package client

import (
	"testing"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/protover"
)

// TestLastHop: with PQRequireAll the hop to a relay that a stranger names must be
// protected, too, by what the signed directory says of the relay.
func TestLastHop(t *testing.T) {
	relay := func(n byte, protocols string) linkspec.Target {
		p, err := protover.Parse(protocols)
		if err != nil {
			t.Fatal(err)
		}
		return linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{n}, Ed: ident.Ed25519ID{n}}, Ntor: ident.X25519Key{n}, Proto: p}
	}
	const chive = "Relay=2-6 ChivePQ=1-3,8"
	for _, c := range []struct {
		policy   circuit.PQPolicy
		from, to string
		carriage handshake.Carriage
		refused  bool
	}{
		{circuit.PQPrefer, chive, "", 0, false}, // as stock programs do
		{circuit.PQRequireOne, chive, "", 0, false},
		{circuit.PQRequireAll, chive, chive, handshake.CarriageA, false},
		{circuit.PQRequireAll, chive, "Relay=2-6 ChivePQ=8", handshake.CarriageB, false},
		{circuit.PQRequireAll, chive, "Relay=2-6", 0, true},
		{circuit.PQRequireAll, chive, "", 0, true},
	} {
		cl, err := New(Config{Network: netdir.Public(), Dial: refuse, PQ: c.policy, PQSet: handshake.PQ768})
		if err != nil {
			t.Fatal(err)
		}
		to := relay(2, c.to)
		var opts circuit.HopOptions
		p, err := clientNetwork{cl}.lastHop(relay(1, c.from), &to, &opts)
		if (err != nil) != c.refused || err != nil && !fault.Is(err, fault.Refused) || p.Carriage != c.carriage {
			t.Errorf("%+v: %v %v", c, p, err)
		}
		if hybrid := opts.Handshake != nil; hybrid != (c.carriage == handshake.CarriageA) {
			t.Errorf("%+v: handshake %v", c, opts.Handshake)
		}
		cl.Close()
	}
}

// TestOnionPQ: what a client demands of the hop between services and clients.
func TestOnionPQ(t *testing.T) {
	for _, c := range []struct {
		policy circuit.PQPolicy
		demand bool
		want   circuit.PQPolicy
	}{
		{circuit.PQPrefer, false, circuit.PQPrefer}, {circuit.PQPrefer, true, circuit.PQRequireAll},
		{circuit.PQOff, false, circuit.PQOff}, {circuit.PQRequireAll, false, circuit.PQRequireAll},
	} {
		if got := (&Config{PQ: c.policy, RequireOnionPQ: c.demand}).onionPQ(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
