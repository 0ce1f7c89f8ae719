package fte

import "net"

// Transport sets up the connections of one side (client or server) of one
// protocol. It is safe for concurrent use.
type Transport interface {
	// Wrap returns a connection over raw. Nothing is sent or read before the
	// handshake, which the first Read or Write runs.
	Wrap(raw net.Conn) *Conn
}
