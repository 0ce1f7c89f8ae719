// Package ethnode is an Ethereum node without state: it speaks the eth protocol with
// unmodified peers, relays transactions, and passes requests for headers, bodies, receipts
// and access lists on to peers that have them.
//
// It speaks eth/69, eth/70 and eth/71. It does not offer eth/72: peers of that version
// fetch blobs as cells, which need a pool of cells.
//
// Where things are:
//
//   - chain.go and status.go: which chain it is, and the handshake that compares chains;
//   - head.go: the newest block, by the median of the peers' block ranges;
//   - agreed.go: the newest headers that most of some peers have, asked for when they are needed;
//   - peer.go and messages.go: a peer, the loop that reads it, and the table of messages;
//   - gossip.go and fetch.go: transactions to and from peers (their pool: package pool);
//   - mined.go: transactions that leave the pool because they are in a block;
//   - forward.go, answer.go and verify.go: requests that are passed on;
//   - rules.go: which class goes by which peers;
//   - choose.go: which peer is asked, by what was measured;
//   - oneshot.go: a connection for one transaction (its queue: package broadcast).
//
// Each peer's messages are read by one goroutine. An error there ends this peer's
// connection only; [fault] says with which reason, and how the peer's score changes.
package ethnode
