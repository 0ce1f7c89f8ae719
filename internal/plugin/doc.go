// Package plugin is the transport's side of the pluggable-transport interface, for a chive that
// Tor has launched (pt-spec.txt, version 1).
//
// [Run] offers the transports of package builtin: to a client by a SOCKS port that takes
// arguments with each connection, and to a bridge by connections to its Extended ORPort.
package plugin
