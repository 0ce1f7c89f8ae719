// Package ctor makes private networks of stock C tor on loopback, for tests and
// measurements: authorities, relays, exits and clients, each an ordinary tor
// process with its own directory, started by Start and ended by Close.
//
// A network is usable as soon as its first consensus is published, and the first
// consensus lists every relay. The authorities delay their first vote until all
// of them have every descriptor; then Start tells them over their control ports
// to vote at the next second. There is never a consensus with only a part of the
// network.
//
// Every process is started by its path, is ended by its process number, and
// dies with the process that started it, however that one ends.
//
// The switches of protocol features in C tor 0.4.9:
//
//   - Congestion control: the consensus parameter cc_alg (0 off, 2 Vegas, the
//     default). A relay without it answers no negotiation and uses SENDME
//     windows of 1000 and 500. From 0.4.9.12 on, clients and relays
//     negotiate it whatever the parameter says.
//   - CGO: no option. A client asks for it at every hop that lists Relay=5,
//     Relay=6 and FlowCtrl=2, if congestion control is on; a relay always
//     grants it. Options.WithoutCGO therefore runs relays whose descriptors
//     say Relay=2-4, from a copy of the binary that differs only there.
//   - Conflux: the consensus parameter cfx_enabled, or ConfluxEnabled in a
//     client's torrc.
//   - Scheduler: "Schedulers Vanilla" instead of KIST, at every node.
package ctor
