package relay

import (
	"context"
	"net"
	"net/netip"
)

// Over is a network that is not the kernel's: see Config.Dial and Config.OpenPort.
type Over struct {
	Dial     func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	OpenPort func(at netip.AddrPort) (net.Listener, error)
}

// NewOver is New of the public package relay, for a relay on a network that is not the kernel's: cfg is that
// package's Config, and a *Relay of that package comes back. The public package sets it at its start: it is above
// this one, and an exported function of it would be public.
var NewOver func(cfg any, over Over) (relay any, err error)
