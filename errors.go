package chive

import (
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
)

// The kinds of errors. Every error of this package has at least one kind, which
// errors.Is tells; the error's text names the operation that failed. An error
// with another error as its cause has both kinds: a directory that could not be
// fetched in time is ErrDirectory and ErrTimeout. The packages relay, authority
// and fte have the same kinds.
var (
	ErrNetwork   error = fault.Network   // the network failed: refused, reset, unreachable
	ErrProtocol  error = fault.Protocol  // a peer broke the protocol
	ErrDirectory error = fault.Directory // directory information is missing, stale or invalid
	ErrConfig    error = fault.Config    // the configuration, or an argument, cannot be used
	ErrResource  error = fault.Resource  // a limit of this machine or process was reached
	ErrTimeout   error = fault.Timeout   // the time limit passed
	ErrPolicy    error = fault.Refused   // a rule of this program or of a peer forbids it
	ErrClosed    error = fault.Closed    // it was closed, or the context was cancelled
	ErrLocal     error = fault.Local     // this program or its machine failed: a disk, a mistake
)

// Why an onion service cannot be reached. errors.Is tells them apart; an error with
// one of them has a kind, too. SOCKS 5 clients see the codes F0 to F7 of proposal
// 304 if the port has ExtendedErrors.
var (
	ErrOnionAddress      = hsclient.ErrAddress       // F6: the name is no address of an onion service
	ErrOnionNoDescriptor = hsclient.ErrNoDescriptor  // F0: no directory knows the service: it is down, or does not exist
	ErrOnionDescriptor   = hsclient.ErrBadDescriptor // F1: the service's descriptor is not valid
	ErrOnionIntroduction = hsclient.ErrIntroduction  // F2: no introduction point could introduce this client
	ErrOnionRendezvous   = hsclient.ErrRendezvous    // F3: the service did not come to the rendezvous point
	ErrOnionNeedsAuth    = hsclient.ErrNeedsAuth     // F4: the service wants a key, and there is none for it
	ErrOnionBadAuth      = hsclient.ErrBadAuth       // F5: the service does not know the key
	ErrOnionTimeout      = hsclient.ErrIntroTimeout  // F7: no introduction point answered in time
	// ErrOnionClassical: the service has no post-quantum key, and the option PQ or
	// RequireOnionPQ demands one.
	ErrOnionClassical = hsclient.ErrClassical
)
