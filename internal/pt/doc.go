// Package pt is the pluggable-transport interface: the process protocol between
// Tor and a transport that it launches (pt-spec.txt, version 1), the SOCKS
// dialect with per-connection arguments, and the Extended ORPort.
//
// [Run] is the plugin's side, for a chive that Tor has started. [Launch] is the
// parent's side: it keeps a transport process running and finds out where its
// transports listen. [Method.Dial] connects through a transport, and [AcceptExt]
// accepts the connections that a bridge's transports make.
package pt
