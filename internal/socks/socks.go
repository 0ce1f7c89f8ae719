// Package socks has the ports that local programs connect to: a SOCKS 4, 4a and
// 5 server, an HTTP CONNECT proxy, a DNS port and a transparent port. It speaks to programs on one
// side and to a Dialer on the other, and knows nothing of circuits.
//
// What the SOCKS side adds to the standards is in the Tor specifications'
// "Tor's extensions to the SOCKS protocol": the commands RESOLVE and
// RESOLVE_PTR, user names and passwords that isolate streams and
// authenticate nobody, and the extended errors of proposal 304. The HTTP side follows "Tor's support for
// HTTP CONNECT, and extensions".
//
// Every port bounds what programs can make it hold: connections, the time and
// bytes of a handshake, and the bytes under way, which are one buffer for each
// direction.
package socks

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/stream"
)

// Dialer opens streams and looks names up, for a Server.
//
// Errors become the reply codes of the protocol: attach a Reason with Because
// if it is known; otherwise the error's fault.Kind decides.
type Dialer interface {
	// Dial opens a stream to req.Host and req.Port, and returns when the far
	// end is connected. It sends req.Early as the stream's first bytes, with
	// the request to connect where the network can carry both. The connection
	// should have a CloseWrite method; without one a client that stops
	// writing stops reading too. One that implements io.WriterTo or
	// io.ReaderFrom moves its bytes that way.
	Dial(ctx context.Context, req Request) (net.Conn, error)
	// Resolve returns the addresses of req.Host; req.Port is 0.
	Resolve(ctx context.Context, req Request) ([]Answer, error)
	// ResolvePTR returns the names of an address; req.Host is its literal.
	ResolvePTR(ctx context.Context, addr netip.Addr, req Request) ([]Answer, error)
}

// Request says what a program asked for. In a call to Dial, Port is not zero. Early is what the
// program sent without waiting for the reply. Permit is the port's flags.
type Request = stream.Request

// Answer is one result of a lookup: an address or a name.
type Answer struct {
	Addr netip.Addr // invalid in an answer to ResolvePTR
	Name string     // empty in an answer to Resolve
	TTL  uint32     // seconds
}
