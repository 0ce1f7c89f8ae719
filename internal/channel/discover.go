package channel

import (
	"context"
	"net/netip"

	"github.com/chivenet/chive/internal/ident"
)

// Discover opens a channel to the relay that answers at an address, whatever its
// identity, and keeps it for reuse. From then on, call Get with the channel's
// Peer.
func (m *Manager) Discover(ctx context.Context, addr netip.AddrPort) (*Channel, error) {
	cfg := *m.link.Load()
	cfg.AnyPeer = true
	any := &Manager{cfg: m.cfg, dial: m.dial}
	any.link.Store(&cfg)
	l, err := any.connectOne(ctx, ident.RelayID{}, addr)
	if err != nil {
		return nil, err
	}
	return m.Adopt(l)
}
