// Package chive is a client of the Tor network, and of networks like it, that a Go
// program can import. It is pure Go, and no other program runs beside it.
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
// bridges, and the directory authorities of a network of one's own. Package
// [github.com/chivenet/chive/lab] runs a whole network on loopback, for tests.
//
// # Connections
//
// [Client.Dial] and [Client.DialContext] open a stream through three relays, and
// [Client.HTTPClient] makes HTTP requests by such streams. Give them host names: the
// last relay, the exit, looks them up. A lookup by package net would tell the
// machine's resolver where the program connects to; [Client.Lookup] asks an exit.
// There are streams of bytes only (TCP): no datagrams.
//
// # Onion services
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
// ends. Whoever watches both ends of a connection can match them by time and volume.
// The exit reads what is not encrypted end to end: use TLS. What the program itself
// says (a name, a cookie, a header) is sent as it is. Streams of one client may share
// a circuit and so an exit address, by which a destination can link them:
// [Client.Isolated] and [WithIsolation] keep activities apart. The data directory
// keeps the guards, the first relays of all circuits: a client that gets a new
// directory for every start meets many more relays than it should.
// docs/threat-model.md has the details.
//
// A client never falls back to connections without Tor.
//
// # Lifecycle
//
// [New] checks the configuration, locks the data directory and starts the client. It
// waits for nothing on the network: DialContext waits for the directory by itself,
// and [Client.Wait] does nothing else. [Client.Reload] changes some options of a
// running client. [Client.Done] tells when a client cannot go on, [Client.Err] says
// why, and [Client.Close] ends it; Close may be called at any time and more than once.
//
// # Errors
//
// An error's text says what was being done. errors.Is tells its kind, such as
// [ErrConfig] or [ErrPolicy], and what an exit said as connections without Tor do:
// [syscall.ECONNREFUSED], [syscall.ECONNRESET], [syscall.EHOSTUNREACH] and
// [syscall.ETIMEDOUT]. errors.As gives a *[net.DNSError] when a name could not be
// looked up, and a [net.Error] whose Timeout tells time-outs.
// docs/embedding.md has a table of kinds, with what to do.
package chive
