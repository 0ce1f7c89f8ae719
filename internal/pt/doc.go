// Package pt is the parent's side of the pluggable-transport interface: it keeps the process of
// a transport running (pt-spec.txt, version 1), connects through its SOCKS port or that of
// one that runs already, and accepts the connections that a bridge's transports make.
//
// [Launch] starts a process and finds out where its transports listen, [Method.Dial]
// connects through one, and [AcceptExt] is the Extended ORPort's side of a connection.
// [ParseBridgeLine] and [ParseTransportLine] read what users write.
package pt
