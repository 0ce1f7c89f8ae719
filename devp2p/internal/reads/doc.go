// Package reads answers what wallets ask about the chain, from a node that the user names: the
// upstream. It reaches the upstream through Tor, or by a Unix socket of this machine, and by
// nothing else.
//
// The upstream learns as little as possible, and is not believed where it can be checked:
//
//   - each account is asked for over circuits of its own ([keyOf]);
//   - only the methods of one table go there, and none that sends a transaction;
//   - its chain ID must be the chain's, and its answers have bounds in bytes and time;
//   - nonces and balances are proved against a header that peers agree on, where the upstream
//     has proofs.
//
// Where things are: address.go says which upstreams are allowed, upstream.go and dial.go talk to
// one, methods.go has the table of methods, own.go knows the transactions that this node was asked
// to send, params.go and values.go check what goes out and what comes in, and proof.go checks
// proofs.
package reads
