// Package authority runs a directory authority inside a Go program. The authorities
// of a network test its relays, vote, and sign the consensus by which clients choose.
//
// The public Tor network has its own authorities: this package is for networks of
// one's own, and for tests, for which package lab does all of it.
//
// # Making a network
//
// [MakeKeys] makes the keys of each authority below "keys" in its data directory. A
// network file names all authorities by these keys and by their ports;
// chive.ParseNetwork reads it, and so do clients and relays. docs/operators.md has
// its form.
//
// The identity key that MakeKeys makes is needed for new certificates only. Encrypt
// it with a passphrase, or keep it elsewhere. Whoever has the keys of more than half
// of the authorities decides which relays a network consists of.
//
// # Lifecycle
//
// [New] checks the configuration, loads keys and state, opens the ports and starts
// the authority. [Authority.Reload] reads the list of approved relays again.
// [Authority.Close] ends it, at once: what it knows is on the disk, and the others
// vote without it meanwhile. [Authority.Done] and [Authority.Err] tell that it ended
// by itself, and why.
//
// # Errors
//
// errors.Is tells an error's kind, such as [ErrConfig].
package authority
