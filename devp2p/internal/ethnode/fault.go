package ethnode

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/p2p"
)

// An Event is what a peer did, for its score.
type Event string

// The events that the node reports.
const (
	Useful    Event = "useful"    // an answer or a transaction that was worth something
	Useless   Event = "useless"   // an empty answer, or a transaction that fails its checks
	Slow      Event = "slow"      // no answer in time
	Unasked   Event = "unasked"   // an answer that nobody asked for
	Malformed Event = "malformed" // a message that breaks the protocol
	Wrong     Event = "wrong"     // an answer that its hashes disprove
	Flood     Event = "flood"     // more than its rates allow
	Foreign   Event = "foreign"   // it belongs to another chain
)

// A fault ends a peer's connection.
type fault struct {
	reason p2p.DiscReason // what the peer is told
	event  Event
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(reason p2p.DiscReason, e Event, format string, a ...any) error {
	return &fault{reason, e, fmt.Errorf(format, a...)}
}

// malformed is the fault of a message that breaks the protocol.
func malformed(format string, a ...any) error {
	return faultf(p2p.DiscProtocolError, Malformed, format, a...)
}

// reasonOf returns what the peer of an error is told, and the event, if the error is a
// fault of the peer.
func reasonOf(err error) (p2p.DiscReason, Event) {
	var f *fault
	if errors.As(err, &f) {
		return f.reason, f.event
	}
	var r p2p.DiscReason
	if errors.As(err, &r) {
		return r, ""
	}
	return p2p.DiscNetworkError, ""
}
