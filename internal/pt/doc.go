// Package pt is the pluggable-transport interface: the process protocol
// between a Tor and a transport that it launches (pt-spec.txt, version 1), the
// SOCKS dialect with per-connection arguments, and the Extended ORPort.
//
// [Run] is the plugin's side: what chive is when Tor starts it.
package pt
