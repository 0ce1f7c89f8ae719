// Package links emulates links: packets go in, and come out as rules say, each direction on
// its own.
//
// A Pipe is one direction, and pure: it knows no clock, and with a seed and the same packets it
// always decides the same. A packet goes through it in this order:
//
//	MTU -> queue -> rate -> loss on the way -> delay and jitter -> order
//
// So a packet that is lost on the way has used the link, as on a real one, and a queue fills
// only in front of a rate. A Line gives a Pipe a clock and carries the packets. It measures how
// late it was itself: what a machine did that had no time tells nothing about a link. A Net joins
// hosts, each with a link of its own to a middle that takes no time.
package links
