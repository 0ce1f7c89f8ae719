// Package hostile drives whole relays, clients, directory clients and
// authorities with sequences of operations that a hostile peer could choose, on
// virtual time and connections in memory, and checks afterwards that nothing
// was harmed. The native fuzz targets of its tests do the choosing.
//
// A fuzz input is a program, operations of four bytes each, and a number that
// random changes of it are drawn from (see Program and edited). Each target has a
// table of operations; every byte means something, and a byte that differs by a
// little means something that differs by a little. Valid sequences are the seeds,
// and what a mutation makes of one is still mostly valid: a handshake with another
// option, a message too many, an end in the midst of a step.
//
// After each run there must be no circuit, set, stream, extend or link that
// nobody has, no goroutine (the bubble of virtual time would not end), no byte
// on the account of memory; and an honest peer beside the hostile one must have
// been served all the time.
//
// A program that failed does so again: time is virtual, and the randomness of
// cryptography comes from a seed. What no seed reaches are the keys, which each
// process makes, what the code under test draws from math/rand, and the order of
// goroutines that run at the same time.
package hostile
