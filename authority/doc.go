// Package authority runs a directory authority inside a Go program. The authorities
// of a network test its relays, vote, and sign the consensus by which clients choose.
//
// The public Tor network has its own authorities: this package is for private
// networks and for tests. For tests, package lab makes a complete network.
//
// # Making a network
//
// [MakeKeys] makes the keys of each authority below "keys" in its data directory.
// A network file names all authorities with these keys and their ports;
// chive.ParseNetwork reads it, and clients and relays need it too.
// docs/operators.md describes its format.
//
// The identity key that MakeKeys makes is needed for new certificates only.
// Encrypt it with a passphrase, or keep it elsewhere. A person with the keys of
// more than half of the authorities decides which relays belong to the network.
//
// # Lifecycle
//
// [New] checks the configuration, loads keys and state, opens the ports and
// starts the authority. [Authority.Reload] reads the list of approved relays
// again. [Authority.Close] ends it at once: its state is on the disk, and the
// other authorities vote without it. [Authority.Done] and [Authority.Err] tell
// whether and why it ended by itself.
//
// # Errors
//
// errors.Is tells an error's kind, such as [ErrConfig].
package authority
