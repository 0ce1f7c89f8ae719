// Package devp2p carries go-ethereum's peer-to-peer protocol over Tor's onion
// services, with an unmodified go-ethereum.
//
// A [Transport] reaches nodes and is reached by them, by a [Policy] that says what
// may leave the machine outside Tor. Its connections are plain net.Conns, which
// p2p.Server takes by its NodeDialer hook (outgoing) and by SetupConn
// (incoming). Onions are reached by the Chive client in this program
// ([Embedded]), or by any Tor daemon with a control port ([TorProxy]).
//
// A node tells others its onion by an entry of its node record: [Onion3].
package devp2p
