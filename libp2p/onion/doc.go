// Package onion is a transport of libp2p over onion services: hosts of go-libp2p reach each
// other by multiaddresses of the form /onion3/ADDRESS:PORT, by the Chive client in this
// program.
//
// [New] makes what libp2p.Transport takes. [NewHost] makes a host that has this transport
// and no other way out: it opens no socket and asks no name server, whatever addresses its
// peers tell. A host that libp2p.New makes with this transport keeps libp2p's other habits.
package onion
