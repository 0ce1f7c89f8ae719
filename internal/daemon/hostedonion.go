package daemon

import (
	"context"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/proxydial"
)

// Onions returns what a controller may have the client do with onion services.
func (h *Hosted) Onions() client.OnionControl { return client.OnionControlOf(h.whole()) }

// whole returns the client itself: Host opens no other kind.
func (h *Hosted) whole() *chive.Client { return h.n.client.(proxydial.Whole).Client }

// OnionStatus returns the state of the onion services of the settings.
func (h *Hosted) OnionStatus() []chive.OnionStatus { return h.n.onions.status() }

// Listen starts an onion service on the client.
func (h *Hosted) Listen(ctx context.Context, cfg chive.OnionConfig) (*chive.OnionListener, error) {
	return h.whole().Listen(ctx, cfg)
}

// AddOnionKey and RemoveOnionKey are chive.Client's AddOnionClientKey and RemoveOnionClientKey.
func (h *Hosted) AddOnionKey(k chive.OnionClientKey) error { return h.whole().AddOnionClientKey(k) }

// RemoveOnionKey is AddOnionKey's counterpart.
func (h *Hosted) RemoveOnionKey(address string) error { return h.whole().RemoveOnionClientKey(address) }
