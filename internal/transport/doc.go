// Package transport is the seam between a node and the transports that disguise its connections:
// what a node asks of one, and what keeps a wrong one from doing harm.
//
// A transport inside the process is a stranger's code. It may never return, return nothing or
// panic, and its connections may misbehave. [Dial] and [Listen] contain this as far as Go lets
// them: the node goes on, and what the transport has opened is closed. Only goroutines of the
// transport's own, and those that wait in its functions, can stay.
package transport

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// DialFunc opens a connection to "IP:PORT"; it has the form of net.Dialer's DialContext.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Client is the side of a transport that connects to bridges.
type Client interface {
	// Dial connects to a bridge with the arguments of its line. Connections to the network
	// come from dial, which may be called as long as the connection is open.
	Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error)
}

// Server is the side of a transport that accepts a bridge's clients.
type Server interface {
	// Listen opens a port. It returns the arguments that clients need, too. The RemoteAddr of
	// a connection is the client's address, a *net.TCPAddr, or something else if it is not known.
	Listen(ctx context.Context, cfg ServerConfig) (net.Listener, map[string]string, error)
}

// ServerConfig is what a bridge tells a transport.
type ServerConfig struct {
	Addr    netip.AddrPort    // where to listen; port 0 lets the transport choose
	Options map[string]string // those of the operator
	Dir     string            // of the transport's state, which exists
	// Listen opens a port, perhaps one that the process has taken over.
	Listen    func(ctx context.Context, network, addr string) (net.Listener, error)
	MaxConns  int   // how many connections the bridge can carry
	MaxMemory int64 // how many bytes peers may make the transport hold; zero: no bound
	Log       *slog.Logger
}

// closeTimeout is how long the Close of a transport's connection may take, before what the
// transport has opened for it is closed anyway.
const closeTimeout = 5 * time.Second
