// Package chive is onion routing that a Go program can import: a client of the
// Tor protocol in pure Go, with no daemon beside it.
//
// The packages under internal hold one part of the protocol each;
// docs/design.md says how they are laid out, and a test enforces it.
package chive
