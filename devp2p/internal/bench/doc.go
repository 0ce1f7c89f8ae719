// Package bench measures Ethereum's peer-to-peer protocol over a plain connection, over
// Chive's onions, and over those of a stock tor, in one run on networks of relays on this
// machine, and writes a report.
//
//	run.go       the steps of a run, one after the other; sizes.go says how much of each
//	basic.go     connections by stages, downloads, round trips
//	crowd.go     what peers cost a node, and what each gets
//	load.go      a connection beside others
//	circuits.go  one circuit for all, one a peer, built ahead
//	policies.go  the policies, side by side
//	overlinks.go the first three behind slow links, which line.go makes
//	world.go     networks and nodes; node.go is a measured node, a process of its own
//	remote.go    the measuring side: RLPx without a server, to time its steps
//	rows.go      what was measured; text.go, page.go and figures.go write it
//
// Kinds take turns, or follow each other in each step, so that what else this machine does
// hits all of them.
package bench
