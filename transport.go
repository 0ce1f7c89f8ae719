package chive

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/chivenet/chive/internal/builtin"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/transport"
)

// Transport is the client's side of a pluggable transport inside the program: it disguises the
// connections to bridges. Package relay has the bridge's side. Its methods may be called from
// any goroutine.
//
// A transport reaches the network by nothing but the function that it gets. A mistake in it ends
// at most the connections that it made: if Dial panics, returns nothing or does not return,
// the bridge cannot be reached, and the client goes on. But goroutines that a transport starts
// are its own, and so are their panics.
type Transport interface {
	// Dial connects to a bridge, and returns a connection to its ORPort.
	//
	// args are the arguments in the bridge's line. dial has the form of net.Dialer's
	// DialContext. It goes by Config.Proxy and within Config.ReachableAddresses,
	// connects by TCP to "IP:PORT", and looks up no names (ErrPolicy).
	//
	// The client waits until ctx ends, and no longer: a connection that comes later is closed. What
	// dial has opened is closed after the returned connection, or when Dial has
	// failed. Until then, the transport may use dial again. Read and Write must end when the
	// connection is closed or a deadline has passed, as those of package net do.
	Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error)
}

// inside returns the transports of this process: the program's and Chive's own, without
// those for which there is a plugin.
func (c *Config) inside(plugins []pt.TransportLine) (map[string]transport.Client, error) {
	plugged := func(name string) bool {
		return slices.ContainsFunc(plugins, func(l pt.TransportLine) bool { return slices.Contains(l.Transports, name) })
	}
	all := map[string]transport.Client{}
	for _, name := range builtin.Names {
		if t, ok := builtin.Of(name); ok && !plugged(name) {
			all[name] = t
		}
	}
	for name, t := range c.Transports {
		switch {
		case !ptspec.ValidName(name):
			return nil, options.Wrong("Transports", "%.40q is not a transport's name", name)
		case t == nil:
			return nil, options.Wrong("Transports", "%s is nil", name)
		case plugged(name):
			return nil, options.Wrong("Transports", "%s has a transport plugin, too", name)
		}
		all[name] = t
	}
	return all, nil
}
