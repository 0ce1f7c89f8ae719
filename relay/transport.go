package relay

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"github.com/chivenet/chive/internal/builtin"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/internal/transport"
)

// Transport is the bridge's side of a pluggable transport inside the program: it accepts the
// connections of clients, and takes the disguise off them. chive.Transport is the client's side.
//
// A mistake in it ends at most the connections that it made: if a method panics, returns
// nothing or does not return, the bridge tries again later, and its other ports go on. But
// goroutines that a transport starts are its own, and so are their panics.
type Transport interface {
	// Listen opens a port, within 30 seconds. It returns the arguments that stand in the lines
	// for clients, too. The bridge closes the listener when it ends, and may then call
	// Listen again, for example after a time in which it rests.
	//
	// Accept returns connections that have passed the transport's handshake, and so must not
	// wait for a peer that says nothing. The RemoteAddr of a connection is the client's
	// address, a *net.TCPAddr, by which the bridge counts clients; anything else says that it
	// is not known. Read and Write must end when the connection is closed or a deadline has
	// passed, as those of package net do.
	//
	// The bridge bounds the connections that Accept has returned. Those before, and all memory
	// that peers make the transport use, are the transport's to bound.
	Listen(ctx context.Context, cfg TransportConfig) (net.Listener, map[string]string, error)
}

// TransportConfig is what a bridge tells a transport.
type TransportConfig struct {
	// Addr is where to listen. Port 0 lets the transport choose; the bridge then asks for the
	// same port the next time.
	Addr netip.AddrPort
	// Options are those of Config.ServerTransportOptions.
	Options map[string]string
	// Dir is a directory for keys and the like, which exists. Other transports use it, too.
	Dir string
	// Listen opens a port of TCP, or takes over one that systemd has opened, or that was open before an
	// upgrade. It has the form of net.ListenConfig's Listen.
	Listen func(ctx context.Context, network, addr string) (net.Listener, error)
	// MaxConns is how many connections the bridge can carry, with those of its other ports.
	MaxConns int
	// MaxMemory is the transport's share of Config.MaxMemory, in bytes.
	MaxMemory int64
	// Logger is the bridge's log, or none. Write no address and no name of a peer to it.
	Logger *slog.Logger
}

// adapted is a program's transport, as the internal packages see it.
type adapted struct{ t Transport }

func (a adapted) Listen(ctx context.Context, cfg transport.ServerConfig) (net.Listener, map[string]string, error) {
	return a.t.Listen(ctx, TransportConfig{
		Addr: cfg.Addr, Options: cfg.Options, Dir: cfg.Dir, Listen: cfg.Listen, MaxConns: cfg.MaxConns, MaxMemory: cfg.MaxMemory, Logger: cfg.Log,
	})
}

// inside adds the transports of this process: the program's, and those of Chive's own that an
// option names and no plugin offers.
func (cfg *Config) inside(out *relay.Config) error {
	plugged := func(name string) bool {
		return slices.ContainsFunc(out.Transports, func(l pt.TransportLine) bool { return slices.Contains(l.Transports, name) })
	}
	out.Inside = map[string]transport.Server{}
	for _, name := range builtin.Names {
		_, listens := out.TransportListen[name]
		_, told := out.TransportOptions[name]
		if t, ok := builtin.Of(name); ok && !plugged(name) && (listens || told) {
			out.Inside[name] = t
		}
	}
	for name, t := range cfg.Transports {
		switch {
		case !ptspec.ValidName(name):
			return options.Wrong("Transports", "%.40q is not a transport's name", name)
		case t == nil:
			return options.Wrong("Transports", "%s is nil", name)
		case plugged(name):
			return options.Wrong("Transports", "%s has a transport plugin, too", name)
		}
		out.Inside[name] = adapted{t}
	}
	return nil
}
