package stream

import (
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
)

// TestOnionFlow: at both ends of a rendezvous, a stream's limits are those of a
// client, as C tor has it; the limits of an exit are the other end's of a client.
func TestOnionFlow(t *testing.T) {
	p := flow.DefaultParams()
	p.XoffClient, p.XoffExit = 100, 900
	for _, c := range []struct {
		info       circuit.HopInfo
		own, peers bool // are a client's
	}{
		{circuit.HopInfo{Client: true}, true, false},
		{circuit.HopInfo{}, false, true},
		{circuit.HopInfo{Client: true, Onion: true}, true, true},
		{circuit.HopInfo{Onion: true}, true, true},
	} {
		c.info.Congestion, c.info.Flow = true, &p
		if got, want := newInFlow(&c.info).drain, flow.NewDrain(&p, c.own); got != want {
			t.Errorf("client %v, onion %v: its own limits are not those wanted", c.info.Client, c.info.Onion)
		}
		if got, want := newOutFlow(&c.info).throttle, flow.NewThrottle(&p, c.peers); got != want {
			t.Errorf("client %v, onion %v: the peer's limits are not those wanted", c.info.Client, c.info.Onion)
		}
	}
}

// TestOrdinaryEnd: MISC is an ordinary end for an open stream over a rendezvous, because
// Arti gives no other reason; a service that opens no stream has refused it.
func TestOrdinaryEnd(t *testing.T) {
	for _, c := range []struct {
		reason      cell.EndReason
		onion, open bool
		want        bool
	}{
		{cell.EndDone, false, true, true},
		{cell.EndDone, true, true, true},
		{cell.EndMisc, true, true, true},
		{cell.EndMisc, true, false, false},
		{cell.EndMisc, false, true, false},
		{cell.EndConnReset, true, true, false},
		{cell.EndDestroy, true, true, false},
	} {
		if got := ordinary(c.reason, &circuit.HopInfo{Onion: c.onion}, c.open); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
