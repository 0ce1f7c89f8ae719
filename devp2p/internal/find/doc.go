// Package find gets node records from where they stand: lists and files, signed trees of
// EIP-1459, and, where the policy allows UDP, discv5.
//
// Names are looked up by DNS over HTTPS, over the HTTP client that the caller gives:
// one whose connections go through Tor. The system's resolver is never asked.
package find
