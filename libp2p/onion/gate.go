package onion

import (
	"context"

	"github.com/libp2p/go-libp2p/config"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// gate lets a host dial onions only, and asks the caller's gater about the rest. A host of
// NewHost has no transport for other addresses: this is a second lock.
type gate struct {
	caller connmgr.ConnectionGater // nil: it allows everything
}

var _ connmgr.ConnectionGater = gate{}

func (g gate) InterceptPeerDial(p peer.ID) bool {
	return g.caller == nil || g.caller.InterceptPeerDial(p)
}

func (g gate) InterceptAddrDial(p peer.ID, a ma.Multiaddr) bool {
	return onion3(a) && (g.caller == nil || g.caller.InterceptAddrDial(p, a))
}

func (g gate) InterceptAccept(c network.ConnMultiaddrs) bool {
	return g.caller == nil || g.caller.InterceptAccept(c)
}

func (g gate) InterceptSecured(d network.Direction, p peer.ID, c network.ConnMultiaddrs) bool {
	return g.caller == nil || g.caller.InterceptSecured(d, p, c)
}

func (g gate) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	if g.caller == nil {
		return true, 0
	}
	return g.caller.InterceptUpgraded(c)
}

// noNames resolves nothing. libp2p would ask the system's name server for each name that a
// peer tells, before it looks whether it has a transport for the address. So addresses with
// names stay as they are, and have no transport.
type noNames struct{}

var _ network.MultiaddrDNSResolver = noNames{}

func (noNames) ResolveDNSAddr(_ context.Context, _ peer.ID, a ma.Multiaddr, _, _ int) ([]ma.Multiaddr, error) {
	return []ma.Multiaddr{a}, nil
}

func (noNames) ResolveDNSComponent(_ context.Context, a ma.Multiaddr, _ int) ([]ma.Multiaddr, error) {
	return []ma.Multiaddr{a}, nil
}

// only returns a factory that leaves onions of what another one returns: what the host tells
// its peers. Nil: there is no other one.
func only(other config.AddrsFactory) config.AddrsFactory {
	return func(addrs []ma.Multiaddr) []ma.Multiaddr {
		if other != nil {
			addrs = other(addrs)
		}
		return ma.FilterAddrs(addrs, onion3)
	}
}
