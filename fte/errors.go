package fte

import "github.com/chivenet/chive/internal/fault"

// The kinds of errors, which errors.Is tells.
var (
	ErrNetwork   error = fault.Network   // the network failed: refused, reset, unreachable
	ErrProtocol  error = fault.Protocol  // a peer broke the protocol
	ErrDirectory error = fault.Directory // directory information is missing, stale or invalid
	ErrConfig    error = fault.Config    // the configuration, or an argument, cannot be used
	ErrResource  error = fault.Resource  // a limit of this machine or process was reached
	ErrTimeout   error = fault.Timeout   // it took too long
	ErrPolicy    error = fault.Refused   // a rule of ours or of a peer's forbids it
	ErrClosed    error = fault.Closed    // it was closed, or the context was cancelled
	ErrLocal     error = fault.Local     // this program or its machine failed: a disk, a mistake
)
