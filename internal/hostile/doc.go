// Package hostile drives whole relays, clients, directory clients and authorities
// with sequences of operations that a hostile peer could choose, with virtual time
// and connections in memory, and checks afterwards that no harm was done. The native
// fuzz targets of its tests choose the operations.
//
// A fuzz input is a program of operations, four bytes each, and a number that selects
// random changes of it (see Program and edited). Each target has a table of
// operations. Every byte has a meaning, and similar bytes have similar meanings. The
// seeds are valid sequences, and most mutations of them are still mostly valid: a
// handshake with another option, one message too many, an end in the middle of a
// step.
//
// After each run there must be no leaked circuit, set, stream, extend or link, no
// goroutine (the bubble of virtual time would not end), and no byte on the account of
// memory. An honest peer next to the hostile one must have been served all the time.
//
// A program that failed will fail again: time is virtual, and the randomness of
// cryptography comes from a seed. The seed does not control the keys, which each
// process makes, the random numbers that the tested code takes from math/rand, and
// the order of goroutines that run at the same time.
package hostile
