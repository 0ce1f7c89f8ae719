// Package chive is a client of the Tor network, and of similar networks, that a
// Go program can import. It is pure Go and needs no other program.
//
//	client, err := chive.New(chive.Config{})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	resp, err := client.HTTPClient().Get("https://check.torproject.org/api/ip")
//
// The packages [github.com/chivenet/chive/relay] and
// [github.com/chivenet/chive/authority] run the other side: relays, exits and
// bridges, and the directory authorities of a private network. Package
// [github.com/chivenet/chive/lab] runs a whole network on loopback, for tests.
//
// # Connections
//
// [Client.Dial] and [Client.DialContext] open a stream through three relays, and
// [Client.HTTPClient] makes HTTP requests by such streams. Give them host names:
// the last relay, the exit, looks them up. A lookup by package net would reveal
// the destination to the machine's resolver; [Client.Lookup] asks an exit.
// Streams carry bytes (TCP) only, not datagrams.
//
// # Onion services
//
// DialContext and HTTPClient also reach names that end in ".onion"; no exit takes part.
// [ErrOnionNoDescriptor] and the errors beside it tell why one cannot be reached.
//
// [Client.Listen] hosts an onion service: a [net.Listener] whose address is known at
// once, and which clients can find when [OnionListener.Published] has returned. Its
// connections, of type *[OnionConn], tell over which circuit they came: those of one
// circuit are of one client. [OnionConfig] says where the key is, which clients may
// connect, and which ports go to other servers. docs/onions.md has what operators need.
//
// # What it protects
//
// The destination does not learn the program's address, and no relay learns both
// ends. An attacker that watches both ends of a connection can match them by time
// and volume. The exit can read everything that is not encrypted end to end: use
// TLS. Names, cookies and headers that the program itself sends are not changed.
// Streams of one client may share a circuit, and a destination can link them by
// their common exit address: [Client.Isolated] and [WithIsolation] keep
// activities apart. The data directory keeps the guards, the first relays of all
// circuits: a client with a new directory for every start uses many more guards
// than it should. docs/threat-model.md has the details.
//
// A client never falls back to connections without Tor.
//
// # Lifecycle
//
// [New] checks the configuration, locks the data directory and starts the client.
// It waits for nothing on the network: DialContext waits for the directory by
// itself, and [Client.Wait] only waits. [Client.Reload] changes some options of a
// running client. [Client.Done] is closed when a client cannot continue,
// [Client.Err] says why, and [Client.Close] ends it; Close may be called at any
// time and more than once.
//
// # Errors
//
// An error's text names the operation that failed. errors.Is tells its kind, such
// as [ErrConfig] or [ErrPolicy], and an exit's answer by the same errors as
// connections without Tor: [syscall.ECONNREFUSED], [syscall.ECONNRESET],
// [syscall.EHOSTUNREACH] and [syscall.ETIMEDOUT]. errors.As gives a
// *[net.DNSError] if a name could not be looked up, with IsNotFound if the host does
// not exist, and a [net.Error] whose Timeout method reports time-outs. What a closed
// client says is [net.ErrClosed]. docs/embedding.md has a table of kinds and of
// the right reactions.
package chive
