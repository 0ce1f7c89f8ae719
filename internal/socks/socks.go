// Package socks is the client's front doors: a SOCKS 4, 4a and 5 server, an
// HTTP CONNECT proxy and a DNS port. It speaks to programs on one side and to
// a Dialer on the other, and knows nothing of circuits.
//
// What the SOCKS side adds to the standards is in the Tor specifications'
// "Tor's extensions to the SOCKS protocol": the commands RESOLVE and
// RESOLVE_PTR, credentials that isolate instead of authenticate, and the
// extended errors of proposal 304. The HTTP side follows "Tor's support for
// HTTP CONNECT, and extensions".
//
// Every door bounds what a client can hold: connections, the time and bytes
// of a handshake, and the bytes in flight, which are one buffer for each
// direction.
package socks

import (
	"context"
	"net"
	"net/netip"
)

// Dialer opens streams and looks names up, for a front door.
//
// Errors become the reply codes of the door's protocol: attach a Reason with
// Because where it is known; otherwise the error's fault.Kind decides.
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

// Request says what a client asked for.
type Request struct {
	Host      string    // a host name, or an address in text without brackets
	Port      uint16    // never 0 in a call to Dial
	Isolation Isolation // who may share its circuit
	Early     []byte    // bytes that the client sent without waiting for the reply; read only
}

// Answer is one result of a lookup: an address or a name.
type Answer struct {
	Addr netip.Addr // invalid in an answer to ResolvePTR
	Name string     // empty in an answer to Resolve
	TTL  uint32     // seconds
}

// Isolation keeps streams apart: two streams may share a circuit only when
// their values are equal. It is comparable, and so can be a map's key. A
// field is zero when the door does not isolate by it.
type Isolation struct {
	Door     string     // the listener's name
	Protocol string     // "socks4", "socks5", "http" or "dns"
	Client   netip.Addr // the client's address, without its port
	Auth     string     // credentials in an unambiguous encoding
	Host     string     // the destination's host
	Port     uint16     // the destination's port
}

// Isolate selects what a door isolates by. The doors' names and credentials
// always do.
type Isolate struct {
	ClientAddr bool // the client's address
	DestAddr   bool // the destination's host
	DestPort   bool // the destination's port
	Protocol   bool // the protocol that the client spoke to the door
}

// DefaultIsolate isolates by the client's address and, as every door does, by
// credentials and door. C tor's listeners begin the same way.
var DefaultIsolate = Isolate{ClientAddr: true}

// of builds the key of one request.
func (i Isolate) of(door, protocol string, client netip.Addr, auth, host string, port uint16) Isolation {
	key := Isolation{Door: door, Auth: auth}
	if i.ClientAddr {
		key.Client = client
	}
	if i.DestAddr {
		key.Host = host
	}
	if i.DestPort {
		key.Port = port
	}
	if i.Protocol {
		key.Protocol = protocol
	}
	return key
}
