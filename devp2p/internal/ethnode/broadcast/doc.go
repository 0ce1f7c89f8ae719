// Package broadcast sends the user's own transactions so that no peer learns where they
// come from.
//
// Each transaction goes over connections of its own: a fresh circuit, a fresh node key,
// one transaction, then the end. The receivers are onion peers, and only they: if there is
// none, the transaction is held. A transaction is sent to more peers, after random times,
// until it is seen back from a peer that did not get it from here.
package broadcast
