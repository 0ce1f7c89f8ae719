package relay

import (
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/ident"
)

// TestWhichLinksRest: links to relays of the consensus rest for long, unless memory or file
// descriptors are scarce.
func TestWhichLinksRest(t *testing.T) {
	listed := &channel.Link{Peer: ident.RelayID{RSA: ident.RSAID{1}}, PeerAuthenticated: true}
	other := &channel.Link{Peer: ident.RelayID{RSA: ident.RSAID{2}}, PeerAuthenticated: true}
	r := &Relay{dos: &dos{ids: map[ident.RSAID]bool{listed.Peer.RSA: true}}, gate: newGate(100), memory: account.New(1000)}
	if !r.mayRest(listed) || r.mayRest(other) || r.mayRest(&channel.Link{}) {
		t.Error("not only links to relays of the consensus rest")
	}
	r.memory.Address(netip.Addr{}).Reserve(501)
	if r.mayRest(listed) {
		t.Error("links rest although memory is scarce")
	}
	r.memory.SetBound(0)
	r.gate.open.Store(r.gate.limit/2 + 1)
	if r.mayRest(listed) {
		t.Error("links rest although file descriptors are scarce")
	}
}
