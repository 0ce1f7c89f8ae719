package hsclient

import (
	"errors"

	"github.com/chivenet/chive/internal/netdoc"
)

// Why a service cannot be reached: each is in the chain of an error that has a
// kind, too. Those with a code are the causes of proposal 304.
var (
	// ErrAddress: the name is no address of an onion service (F6).
	ErrAddress = errors.New("this is no address of an onion service")
	// ErrNoDescriptor: no directory has the service's descriptor (F0): the service is
	// down, or there is none with this address.
	ErrNoDescriptor = errors.New("no directory has the onion service's descriptor: it is down, or its address is wrong")
	// ErrBadDescriptor: the descriptor is not valid (F1).
	ErrBadDescriptor = errors.New("the onion service's descriptor is not valid")
	// ErrIntroduction: all introduction points failed (F2).
	ErrIntroduction = errors.New("no introduction point could introduce this client to the onion service")
	// ErrRendezvous: the service did not come to the rendezvous (F3).
	ErrRendezvous = errors.New("the onion service did not come to the rendezvous point")
	// ErrNeedsAuth and ErrBadAuth: a client's key is missing (F4), or wrong (F5).
	ErrNeedsAuth = netdoc.ErrHSNeedsAuth
	ErrBadAuth   = netdoc.ErrHSBadAuth
	// ErrClassical: the service's descriptor has no ML-KEM key, and the configuration
	// demands post-quantum protection.
	ErrClassical = errors.New("the onion service has no post-quantum key, and the configuration demands one")
	// ErrIntroTimeout: no introduction point answered in time (F7).
	ErrIntroTimeout = errors.New("no introduction point of the onion service answered in time")
)
