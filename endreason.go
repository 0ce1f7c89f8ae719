package chive

import (
	"errors"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/stream"
)

// EndReason says why the other end has ended or refused a stream: an exit, or an onion service
// (tor-spec, "closing streams", RELAY_END). It is an error for errors.Is:
// errors.Is(err, EndResourceLimit). Exits and services choose their reasons, and may lie.
type EndReason uint8

// The reasons.
const (
	EndMisc           EndReason = 1  // none of the others
	EndResolveFailed  EndReason = 2  // the host name could not be looked up
	EndConnectRefused EndReason = 3  // the destination refused
	EndExitPolicy     EndReason = 4  // it will not connect there
	EndDestroy        EndReason = 5  // the circuit is being destroyed
	EndDone           EndReason = 6  // an ordinary end
	EndTimeout        EndReason = 7  // it took too long
	EndNoRoute        EndReason = 8  // there is no route to the destination
	EndHibernating    EndReason = 9  // the relay takes no traffic for a while
	EndInternal       EndReason = 10 // the other end failed
	EndResourceLimit  EndReason = 11 // the other end has no room
	EndConnReset      EndReason = 12 // the connection was reset
	EndTorProtocol    EndReason = 13 // the protocol was broken
	EndNotDirectory   EndReason = 14 // the relay is no directory
)

// Code returns the number that the specification gives the reason.
func (r EndReason) Code() uint8 { return uint8(r) }

// String returns the specification's name without "REASON_", or the number.
func (r EndReason) String() string { return cell.EndReason(r).String() }

// Error returns the same as String.
func (r EndReason) Error() string { return r.String() }

// EndReasonOf returns the reason in an error's chain. ok is false if the other end gave none.
func EndReasonOf(err error) (reason EndReason, ok bool) {
	end, ok := errors.AsType[*stream.EndError](err)
	if !ok {
		return 0, false
	}
	return EndReason(end.Reason), true
}
