// Package interop has nothing but tests: one client after the other (C tor's
// own, which proves the tests; Chive's; Arti's) is put through the same checks
// over networks of stock C tor. A check knows a client only by its SOCKS port
// and its process, and sees what it did from outside: at the target, at the
// relays' control ports, and in the kernel's list of its connections.
//
// Without tor the tests are skipped; with CHIVE_INTEROP=1 that is a failure.
package interop
