package client

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestLeads: a circuit can be extended to any relay but its last and the one before;
// the guard may come again.
func TestLeads(t *testing.T) {
	c := &OpenCircuit{path: &path.Path{}}
	for i := range byte(3) {
		c.path.Hops = append(c.path.Hops, path.Hop{Target: linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{i + 1}}}})
	}
	for id, want := range map[byte]bool{0: true, 1: true, 2: false, 3: false, 4: true} {
		if got := c.Leads(3, ident.RSAID{id}); got != want {
			t.Errorf("relay %d: %v", id, got)
		}
	}
	if c.Leads(4, ident.RSAID{}) || c.Leads(2, ident.RSAID{}) {
		t.Error("another length")
	}
}

// TestServiceRefusesExcluded: a service does not go to a relay that its user excludes,
// although a client names it as its rendezvous point.
func TestServiceRefusesExcluded(t *testing.T) {
	ap := netip.MustParseAddrPort("192.0.2.7:9001")
	target := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{7}, Ed: ident.Ed25519ID{7}}, Addrs: []netip.AddrPort{ap}}
	exclude, err := path.ParseSet([]string{"192.0.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Network: netdir.Public(), Dial: refuse}
	cfg.Path.Exclude = exclude
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what waits for the network ends at once
	if _, _, err := (serviceNetwork{c}).To(ctx, target, target.Specs()); !fault.Is(err, fault.Refused) {
		t.Error(err)
	}
}

// TestMixedIdentities: a target that has one identity of a listed relay has the other one
// too, so a circuit to it turns back by neither.
func TestMixedIdentities(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 30, ValidAfter: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Publish(time.Now()); err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	strange := ident.RelayID{RSA: ident.RSAID{7}, Ed: ident.Ed25519ID{7}}
	other := d.Relay(0).ID()
	for r := range d.All() {
		for _, c := range []struct {
			id   ident.RelayID
			want bool
		}{
			{r.ID(), false},
			{strange, false},
			{ident.RelayID{RSA: r.ID().RSA}, false},
			{ident.RelayID{RSA: r.ID().RSA, Ed: strange.Ed}, true},
			{ident.RelayID{RSA: strange.RSA, Ed: r.ID().Ed}, true},
			{ident.RelayID{RSA: other.RSA, Ed: r.ID().Ed}, r.ID() != other},
		} {
			if got := mixed(d, &linkspec.Target{RelayID: c.id}); got != c.want {
				t.Errorf("%v: %v", c.id, got)
			}
		}
	}
}

// TestMayReopen: no second rendezvous follows when the service has refused a stream.
func TestMayReopen(t *testing.T) {
	refused := fault.New(fault.Refused, "open stream: %w", &stream.EndError{Reason: cell.EndDone})
	lost := fault.New(fault.Network, "open stream: the circuit is closed")
	for _, x := range []struct {
		err    error
		closed bool
		want   bool
	}{{lost, true, true}, {lost, false, false}, {refused, true, false}, {refused, false, false}} {
		if got := mayReopen(x.err, x.closed); got != x.want {
			t.Errorf("%v, closed %v: %v", x.err, x.closed, got)
		}
	}
}
