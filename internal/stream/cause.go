package stream

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/cell"
)

// standard is what a system call would have said of an exit's reason.
var standard = map[cell.EndReason]error{
	cell.EndConnectRefused: syscall.ECONNREFUSED,
	cell.EndConnReset:      syscall.ECONNRESET,
	cell.EndNoRoute:        syscall.EHOSTUNREACH,
	cell.EndTimeout:        syscall.ETIMEDOUT,
}

// Is reports whether target is what a connection without Tor would have failed
// with, such as syscall.ECONNREFUSED, or a reason of the public package.
func (e *EndError) Is(target error) bool {
	if r, ok := target.(interface{ Code() uint8 }); ok {
		return r.Code() == uint8(e.Reason)
	}
	err, ok := standard[e.Reason]
	return ok && target == err
}

// As sets a target of type **net.DNSError when the exit could not look the name up,
// as a connection without Tor would. For BEGIN there is no other answer for a host that does
// not exist.
func (e *EndError) As(target any) bool {
	dns, ok := target.(**net.DNSError)
	if !ok || e.Reason != cell.EndResolveFailed {
		return false
	}
	*dns = &net.DNSError{Err: "the exit could not look it up", Name: "[scrubbed]", IsNotFound: !e.Lookup, IsTemporary: e.Lookup}
	return true
}

// Cause returns what has ended the stream, other than its owner or an ordinary end;
// nil: nothing.
func (s *Stream) Cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.readErrLocked()
	if err == io.EOF || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
