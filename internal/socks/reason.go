package socks

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// Reason says why a request failed, as finely as a reply code can.
type Reason uint8

// The reasons, with the END reason (tor-spec, "Closing streams") or the
// proposal 304 error that each stands for.
const (
	General        Reason = iota // MISC, INTERNAL, DESTROY, RESOURCELIMIT, TORPROTOCOL, HIBERNATING
	NotAllowed                   // EXITPOLICY, or our own policy
	NotFound                     // RESOLVEFAILED
	HostUnreach                  // NOROUTE
	ConnRefused                  // CONNECTREFUSED, CONNRESET, and DONE before CONNECTED
	TimedOut                     // TIMEOUT
	NotReady                     // no usable network yet
	OnionNoDesc                  // proposal 304, F0: descriptor not found
	OnionBadDesc                 // F1: descriptor invalid
	OnionIntro                   // F2: introduction failed
	OnionRend                    // F3: rendezvous failed
	OnionNoAuth                  // F4: client authorisation missing
	OnionBadAuth                 // F5: client authorisation wrong
	OnionBadAddr                 // F6: the address is not an onion address
	OnionIntroTime               // F7: introduction timed out
)

// failure is an error with a reason.
type failure struct {
	reason Reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Because attaches a reason to err, and returns nil for nil.
func Because(r Reason, err error) error {
	if err == nil {
		return nil
	}
	return &failure{r, err}
}

// ReasonOf returns err's reason: the outermost that Because attached, else
// that of a stream's END, of a lookup's failure, of the error's kind, or of an
// error of the system.
func ReasonOf(err error) Reason {
	var f *failure
	var end *stream.EndError
	var dns *net.DNSError
	switch {
	case errors.As(err, &f):
		return f.reason
	case errors.As(err, &end):
		return reasonOfEnd(end.Reason)
	case errors.As(err, &dns) && dns.IsNotFound:
		return NotFound
	case errors.As(err, &dns) && dns.IsTimeout:
		return TimedOut
	case errors.Is(err, context.DeadlineExceeded) || fault.Is(err, fault.Timeout):
		return TimedOut
	case fault.Is(err, fault.Refused), fault.KindOf(err) == fault.Unknown && errors.Is(err, fault.Refused):
		return NotAllowed
	case fault.Is(err, fault.Directory):
		return NotReady
	case errors.Is(err, syscall.ECONNREFUSED):
		return ConnRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return HostUnreach
	case isTimeout(err):
		return TimedOut
	}
	return General
}

// reasonOfEnd maps tor-spec's reasons to those that a reply can tell apart.
func reasonOfEnd(r cell.EndReason) Reason {
	switch r {
	case cell.EndResolveFailed:
		return NotFound
	case cell.EndConnectRefused, cell.EndConnReset, cell.EndDone:
		return ConnRefused
	case cell.EndExitPolicy:
		return NotAllowed
	case cell.EndTimeout:
		return TimedOut
	case cell.EndNoRoute:
		return HostUnreach
	}
	return General
}

// socks5 returns the reply code of RFC 1928, or of proposal 304 when the
// listener has extended errors on.
func (r Reason) socks5(extended bool) byte {
	switch r {
	case NotAllowed:
		return rep5NotAllowed
	case NotFound, HostUnreach:
		return rep5HostUnreach
	case ConnRefused:
		return rep5Refused
	case TimedOut:
		return rep5TTLExpired
	case NotReady:
		return rep5NetUnreach
	}
	switch {
	case r < OnionNoDesc:
		return rep5General
	case extended:
		return rep5OnionNoDesc + byte(r-OnionNoDesc)
	case r == OnionIntroTime:
		return rep5TTLExpired
	}
	return rep5HostUnreach
}

// http returns the status line's code and text ("HTTP CONNECT", response
// codes).
func (r Reason) http() string {
	switch r {
	case NotAllowed:
		return "403 Forbidden (exit policy)"
	case NotFound:
		return "503 Service Unavailable (resolve failed)"
	case HostUnreach:
		return "503 Service Unavailable (no route)"
	case ConnRefused:
		return "403 Forbidden (connection refused)"
	case TimedOut, OnionIntroTime:
		return "504 Gateway Timeout"
	case NotReady:
		return "503 Service Unavailable (no network)"
	case OnionNoDesc, OnionBadDesc, OnionIntro, OnionRend, OnionNoAuth, OnionBadAuth:
		return "502 Bad Gateway (onion service)"
	case OnionBadAddr:
		return "400 Bad Request (onion address)"
	}
	return "500 Internal Server Error"
}
