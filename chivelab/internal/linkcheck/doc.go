// Package linkcheck measures an emulated link from outside, with packets of UDP and the clock, and
// compares what it finds with the link's rules. Sender and receiver are hosts of package linkstack
// in this process, or programs of package linktun.
package linkcheck
