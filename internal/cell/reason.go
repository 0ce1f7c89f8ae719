package cell

import "strconv"

// EndReason says why a stream ended (tor-spec, "Closing streams").
type EndReason uint8

// Reasons of an END message.
const (
	EndMisc           EndReason = 1  // none of the others
	EndResolveFailed  EndReason = 2  // the host name could not be looked up
	EndConnectRefused EndReason = 3  // the destination refused
	EndExitPolicy     EndReason = 4  // the relay will not connect there
	EndDestroy        EndReason = 5  // the circuit is being destroyed
	EndDone           EndReason = 6  // the connection was closed as usual
	EndTimeout        EndReason = 7  // connecting took too long
	EndNoRoute        EndReason = 8  // no route to the destination
	EndHibernating    EndReason = 9  // the relay is hibernating
	EndInternal       EndReason = 10 // the relay failed
	EndResourceLimit  EndReason = 11 // the relay has no resources left
	EndConnReset      EndReason = 12 // the connection was reset
	EndTorProtocol    EndReason = 13 // the other end broke the protocol
	EndNotDirectory   EndReason = 14 // BEGIN_DIR to a relay that is no directory
)

var endNames = [...]string{
	EndMisc: "MISC", EndResolveFailed: "RESOLVEFAILED", EndConnectRefused: "CONNECTREFUSED", EndExitPolicy: "EXITPOLICY",
	EndDestroy: "DESTROY", EndDone: "DONE", EndTimeout: "TIMEOUT", EndNoRoute: "NOROUTE", EndHibernating: "HIBERNATING",
	EndInternal: "INTERNAL", EndResourceLimit: "RESOURCELIMIT", EndConnReset: "CONNRESET", EndTorProtocol: "TORPROTOCOL",
	EndNotDirectory: "NOTDIRECTORY",
}

// String returns the specification's name without "REASON_", or the number.
func (r EndReason) String() string { return reasonName(endNames[:], "end reason ", uint8(r)) }

// DestroyReason says why a circuit was destroyed or truncated (tor-spec,
// "Tearing down circuits").
type DestroyReason uint8

// Reasons of a DESTROY cell and of a TRUNCATED message.
const (
	DestroyNone          DestroyReason = 0  // no reason given; what a client always sends
	DestroyProtocol      DestroyReason = 1  // the protocol was broken
	DestroyInternal      DestroyReason = 2  // the relay failed
	DestroyRequested     DestroyReason = 3  // the client sent TRUNCATE
	DestroyHibernating   DestroyReason = 4  // the relay is saving bandwidth
	DestroyResourceLimit DestroyReason = 5  // out of memory, sockets, or circuit IDs
	DestroyConnectFailed DestroyReason = 6  // the next relay could not be reached
	DestroyORIdentity    DestroyReason = 7  // the next relay is not the one that was named
	DestroyChannelClosed DestroyReason = 8  // the channel that carried the circuit died
	DestroyFinished      DestroyReason = 9  // the circuit expired
	DestroyTimeout       DestroyReason = 10 // building took too long
	DestroyDestroyed     DestroyReason = 11 // the next relay destroyed it
	DestroyNoSuchService DestroyReason = 12 // no such onion service
)

var destroyNames = [...]string{
	DestroyNone: "NONE", DestroyProtocol: "PROTOCOL", DestroyInternal: "INTERNAL", DestroyRequested: "REQUESTED",
	DestroyHibernating: "HIBERNATING", DestroyResourceLimit: "RESOURCELIMIT", DestroyConnectFailed: "CONNECTFAILED",
	DestroyORIdentity: "OR_IDENTITY", DestroyChannelClosed: "CHANNEL_CLOSED", DestroyFinished: "FINISHED",
	DestroyTimeout: "TIMEOUT", DestroyDestroyed: "DESTROYED", DestroyNoSuchService: "NOSUCHSERVICE",
}

// String returns the specification's name, or the number.
func (r DestroyReason) String() string {
	return reasonName(destroyNames[:], "destroy reason ", uint8(r))
}

func reasonName(names []string, what string, r uint8) string {
	if int(r) < len(names) && names[r] != "" {
		return names[r]
	}
	return what + strconv.Itoa(int(r))
}
