// Package sidecar puts an onion service in front of an Ethereum node that already runs,
// unchanged, and connects it to other nodes' onions. It needs the node's JSON-RPC with
// admin_*, by its IPC socket or a port of loopback, and its peer-to-peer port.
//
//	sidecar.go   what the caller gives, and the sidecar's key
//	run.go       the loop that looks at the node, and what follows from it
//	session.go   the onion, from its start to its end, and what speaks onr/1 on it
//	tend.go      when forwards are opened and closed, and what the node is told of them
//	status.go    what the caller is told
//	front.go     the onion: who a connection is for, and its way to the node
//	forward.go   a port of loopback for each onion that the node shall connect to
//	pick.go      which onions these are
//	admin.go     the node's admin interface, as geth and others have it
//	leaks.go     what the node shows of itself outside Tor
//	sockets.go   what its process has open; sockets_linux.go asks the kernel
//	watch.go     how often that is looked at, and how long it counts
//
// The sidecar has an identity of its own and does not know the node's key. Its record
// says by the entry "fronts" (package onr) which node is behind its onion.
package sidecar
