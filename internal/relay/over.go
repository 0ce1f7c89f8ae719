package relay

import (
	"context"
	"crypto/rsa"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/netdir"
)

// Over is what a relay of the public package has elsewhere: a network that is not the kernel's (see Config.Dial and
// Config.OpenPort), Config.NewRSA, Config.Documents and Config.TransportDir.
type Over struct {
	Dial     func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	OpenPort func(at netip.AddrPort) (net.Listener, error)
	NewRSA   func(bits int) (*rsa.PrivateKey, error)

	Documents    *netdir.Shared
	TransportDir string
}

// NewOver is New of the public package relay, for a relay with something of its own: cfg is that
// package's Config, and a *Relay of that package comes back. The public package sets it at its start: it is above
// this one, and an exported function of it would be public.
var NewOver func(cfg any, over Over) (relay any, err error)

// InnerOf returns what stands behind a *Relay of the public package, which sets it as it does NewOver.
var InnerOf func(relay any) *Relay

// LinkUse returns the use of the relay's links.
func (r *Relay) LinkUse() []channel.LinkUse { return r.channels.Use() }

// Channels returns the relay's links, for the laboratory.
func (r *Relay) Channels() *channel.Manager { return r.channels }
