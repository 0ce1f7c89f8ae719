// Package interop has only tests: it runs the same checks with one client after
// the other (C tor's, which shows that the checks are right; Chive's; Arti's)
// over networks of stock C tor. A check uses only the client's SOCKS port and its
// process, and observes the client from outside: at the target, at the relays'
// control ports, and in the kernel's list of its connections.
//
// Without tor the tests are skipped; with CHIVE_INTEROP=1 that is a failure. Some need the
// newest release besides the usual one: CHIVE_TOR_NEWEST names its tor.
package interop
