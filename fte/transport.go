package fte

import "net"

// Transport sets up connections of one side of one protocol. It is safe for
// concurrent use.
type Transport interface {
	// Wrap returns a connection over raw. Nothing is sent or read before the
	// handshake, which the first Read or Write runs.
	Wrap(raw net.Conn) *Conn
}
