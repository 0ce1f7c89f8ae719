// Package bench measures Ethereum's peer-to-peer protocol over a plain connection, over
// Chive's onions, and over those of a stock tor, in one run on a network of relays on
// this machine: how long a connection takes, by stages; how fast data and answers are; and
// what a node's peers cost.
//
//	run.go     the measurements, one after the other
//	remote.go  the measuring side: RLPx without a server, to time its steps
//	node.go    the measured node, in a process of its own
//	report.go  the results as text and JSON; figures.go draws them
package bench
