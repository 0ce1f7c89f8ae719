// Package peers owns a p2p.Server of go-ethereum: it finds out which nodes to
// connect to, dials them by a devp2p.Transport, and takes in those that come to this
// node's onion. The server itself neither dials nor listens, and opens no socket.
//
//	table.go, store.go       nodes that are known, in memory and on disk
//	dial.go, backoff.go      which of them is dialled, and when
//	live.go                  peers that come, go and are sent away
//	inbound.go, evict.go     which connections are let in, and who makes room
//	score.go                 what peers' behaviour counts
package peers
