// Package fault gives errors a coarse kind that callers can test.
//
// A kind says which party caused an error and what can be done about it. The
// text says what the program was doing, and with what. Kinds survive wrapping
// with %w.
package fault

import (
	"errors"
	"fmt"
)

// Kind is the coarse class of an error.
type Kind uint8

// The kinds of errors.
const (
	Unknown   Kind = iota // no kind was attached
	Network               // the network failed: refused, reset, unreachable
	Protocol              // a peer broke the protocol
	Directory             // directory information is missing, stale or invalid
	Config                // the user's configuration cannot be used
	Resource              // a local limit was reached
	Timeout               // it took too long
	Refused               // policy (ours or the peer's) forbids it
	Closed                // its owner closed the object, or cancelled the context
	Local                 // this program or its machine failed (disk, bug)
)

// String returns the kind's name, in lower case.
func (k Kind) String() string {
	switch k {
	case Network:
		return "network"
	case Protocol:
		return "protocol violation"
	case Directory:
		return "directory"
	case Config:
		return "configuration"
	case Resource:
		return "resource limit"
	case Timeout:
		return "timeout"
	case Refused:
		return "refused by policy"
	case Closed:
		return "closed"
	case Local:
		return "local"
	}
	return "unknown"
}

// Error makes a Kind a target for errors.Is: an error that New or Wrap made is
// its kind.
func (k Kind) Error() string { return k.String() }

// kinded is an error with a kind.
type kinded struct {
	kind Kind
	err  error
}

func (e *kinded) Error() string { return e.err.Error() }
func (e *kinded) Unwrap() error { return e.err }

// Is reports whether target is the error's kind. errors.Is asks every error of a
// chain: a directory error that a timeout caused is of both kinds.
func (e *kinded) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.kind
}

// Timeout reports whether the kind is Timeout, or an error in the chain is a timeout,
// as net.Error requires: a directory error that a timeout caused is one, too.
func (e *kinded) Timeout() bool {
	if e.kind == Timeout {
		return true
	}
	cause, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.err)
	return ok && cause.Timeout()
}

// Temporary returns false. net.Error requires the method, but this package makes
// no such promise.
func (e *kinded) Temporary() bool { return false }

// New returns an error of the given kind; format and args are those of
// fmt.Errorf.
func New(kind Kind, format string, args ...any) error {
	return &kinded{kind, fmt.Errorf(format, args...)}
}

// Wrap attaches a kind to err, and returns nil for nil.
func Wrap(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{kind, err}
}

// KindOf returns the outermost kind in err's chain, or Unknown.
func KindOf(err error) Kind {
	var e *kinded
	if errors.As(err, &e) {
		return e.kind
	}
	return Unknown
}

// Is reports whether err's outermost kind is k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }
