package netdir

import (
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// HSAction is what happens to the descriptor of an onion service.
type HSAction uint8

// The actions.
const (
	HSCreated   HSAction = iota // a service here has one for a new time period
	HSUpload                    // a directory is given one
	HSUploaded                  // it has taken it
	HSRequested                 // a directory is asked for one
	HSReceived                  // it has sent it
	HSFailed                    // an upload or a request came to nothing
)

// HSEvent is what happens to the descriptor of an onion service, for who controls this client. It names the
// service, so it goes to no log.
type HSEvent struct {
	Action           HSAction
	Service, Blinded ident.Ed25519ID // Blinded is the service's key in the time period
	Dir              Relay           // zero: none
	Index            [32]byte        // of Dir on the hash ring, of HSUpload and HSRequested
	Reason           string          // of HSFailed, in C tor's words
	Fetch            bool            // HSFailed is of a request
	Text             []byte          // of HSReceived
}

// HSTell is told of events. It must not block, and keeps nothing of an event's Text. Nil: nobody is told.
type HSTell func(HSEvent)

// Event tells of an event.
func (t HSTell) Event(e HSEvent) {
	if t != nil {
		t(e)
	}
}

// HSFetchIndex returns the place of a relay on the ring from which clients fetch descriptors of the current period.
func (d *Directory) HSFetchIndex(t HSTimes, r Relay) [32]byte {
	value, current := d.HSValues(t.Period)
	if t.NewValue {
		value = current
	}
	return hscrypto.NodeIndex(r.ID().Ed, value, t.Period)
}
