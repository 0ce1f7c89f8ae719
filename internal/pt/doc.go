// Package pt is the pluggable-transport interface: the process protocol
// between a Tor and a transport that it launches (pt-spec.txt, version 1), the
// SOCKS dialect with per-connection arguments, and the Extended ORPort.
//
// [Run] is the plugin's side: what chive is when Tor starts it. [Launch] is
// the parent's: it keeps a transport process running and says where its
// transports listen; [Method.Dial] connects through one, and [AcceptExt] takes
// the connections that a bridge's transports bring.
package pt
