// Package layer implements the relay cryptography of one hop: tor1 (tor-spec,
// "Routing relay cells") and Counter Galois Onion (proposal 359).
//
// A hop has two directions that share nothing, so that a channel's reader and
// writer each own one. All functions work in place on a relay cell's 509-byte
// payload and allocate nothing. To seal a message for hop n, a client calls
// Originate on hop n's Forward, and then Encrypt on hops n-1 down to the first.
// To open a cell, it calls Open from the first hop outward until a hop recognises
// the cell. A relay opens forward cells once, and either originates or encrypts
// backward ones.
package layer

import (
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// ClientForward seals cells away from the client.
type ClientForward interface {
	// Originate seals a message for this hop; the recognized and digest
	// fields, or the tag, are overwritten.
	Originate(cmd cell.Command, p *[cell.PayloadLen]byte)
	// Encrypt adds this hop's layer to a message for a later hop.
	Encrypt(cmd cell.Command, p *[cell.PayloadLen]byte)
	// Tag returns the tag that an authenticated SENDME for the last originated
	// message must carry; valid until the next call of Originate.
	Tag() []byte
}

// ClientBackward opens cells toward the client.
type ClientBackward interface {
	// Open removes this hop's layer and reports whether this hop sent the
	// message. If not, the message belongs to a later hop, or is forged.
	Open(cmd cell.Command, p *[cell.PayloadLen]byte) (recognized bool)
	// Tag returns the tag for a SENDME that acknowledges the last recognised
	// message; valid until Open recognises another.
	Tag() []byte
}

// RelayForward opens cells from the client, at a relay.
type RelayForward interface {
	// Open removes this relay's layer and reports whether the message is for this
	// relay. If not, p must go to the next hop unchanged.
	Open(cmd cell.Command, p *[cell.PayloadLen]byte) (recognized bool)
	// Tag is like ClientBackward's.
	Tag() []byte
}

// RelayBackward seals cells toward the client, at a relay.
type RelayBackward interface {
	// Originate seals a message of this relay.
	Originate(cmd cell.Command, p *[cell.PayloadLen]byte)
	// Encrypt adds this relay's layer to a message from a later hop.
	Encrypt(cmd cell.Command, p *[cell.PayloadLen]byte)
	// Tag is like ClientForward's.
	Tag() []byte
}

// Client is the client's side of one hop.
type Client struct {
	Forward  ClientForward
	Backward ClientBackward
	Format   cell.RelayFormat // layout of this hop's relay messages
	KH       [20]byte         // shared nonce that binds ESTABLISH_INTRO to the circuit
}

// Relay is the relay's side of one hop.
type Relay struct {
	Forward  RelayForward
	Backward RelayBackward
	Format   cell.RelayFormat
	KH       [20]byte
}

// readKeys fills k from a key stream.
func readKeys(ks io.Reader, k []byte) error {
	if _, err := io.ReadFull(ks, k); err != nil {
		return fault.New(fault.Local, "read a layer's keys: %w", err)
	}
	return nil
}
