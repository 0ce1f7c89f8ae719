package layer

import (
	"io"

	"github.com/chivenet/chive/internal/cell"
)

// cgoTagLen is the length of CGO's tags and nonces, in bytes.
const cgoTagLen = 16

// cgo is one direction of one hop of Counter Galois Onion (proposal 359). Each
// payload is a tag T of 16 bytes, followed by C. The relay always uses the
// wide-block cipher's encryption and the client its decryption, in both
// directions, because only the encryption is non-malleable.
//
// tPrime chains every cell to the one before it. A message of this hop has nonce
// in place of T. Every message of this hop replaces the keys and the nonce, so
// that an attacker that takes over a relay cannot open earlier cells.
type cgo struct {
	uiv    uiv
	nonce  [cgoTagLen]byte
	tPrime [cgoTagLen]byte
	tag    [cgoTagLen]byte // SENDME tag
}

func newCGO(ks io.Reader, s sense) (*cgo, error) {
	c := new(cgo)
	var keys [uivKeyLen]byte
	defer clear(keys[:])
	if err := readKeys(ks, keys[:]); err != nil {
		return nil, err
	}
	if err := readKeys(ks, c.nonce[:]); err != nil {
		return nil, err
	}
	c.uiv = newUIV(s, &keys)
	return c, nil
}

// Encrypt adds or removes this hop's layer. Both ends use it.
func (c *cgo) Encrypt(cmd cell.Command, p *[cell.PayloadLen]byte) { c.uiv.crypt(&c.tPrime, cmd, p) }

func (c *cgo) Tag() []byte { return c.tag[:] }

// isNonce compares in constant time: the nonce is secret until it is used.
func (c *cgo) isNonce(p *[cell.PayloadLen]byte) bool {
	t, n := loadGF(tagOf(p)), loadGF(&c.nonce)
	return (t.lo^n.lo)|(t.hi^n.hi) == 0
}

// cgoClientForward implements ClientForward.
type cgoClientForward struct{ cgo }

func (c *cgoClientForward) Originate(cmd cell.Command, p *[cell.PayloadLen]byte) {
	*tagOf(p) = c.nonce
	c.Encrypt(cmd, p)
	c.tag = *tagOf(p)
	c.uiv.rekey(&c.nonce)
}

// cgoClientBackward implements ClientBackward.
type cgoClientBackward struct{ cgo }

func (c *cgoClientBackward) Open(cmd cell.Command, p *[cell.PayloadLen]byte) bool {
	c.Encrypt(cmd, p)
	if !c.isNonce(p) {
		return false
	}
	c.tag = c.tPrime
	c.uiv.rekey(&c.nonce)
	return true
}

// cgoRelayForward implements RelayForward.
type cgoRelayForward struct{ cgo }

func (c *cgoRelayForward) Open(cmd cell.Command, p *[cell.PayloadLen]byte) bool {
	t := *tagOf(p)
	c.Encrypt(cmd, p)
	if !c.isNonce(p) {
		return false
	}
	c.tag = t
	c.uiv.rekey(&c.nonce)
	return true
}

// cgoRelayBackward implements RelayBackward.
type cgoRelayBackward struct{ cgo }

func (c *cgoRelayBackward) Originate(cmd cell.Command, p *[cell.PayloadLen]byte) {
	*tagOf(p) = c.nonce
	c.Encrypt(cmd, p)
	c.tag = c.tPrime
	c.uiv.rekey(&c.nonce)
}

// cgoKeys reads both directions and KH: the forward direction's keys and nonce,
// those of the backward direction, and the nonce that binds the circuit.
func cgoKeys(ks io.Reader, s sense) (f, b *cgo, kh [20]byte, err error) {
	if f, err = newCGO(ks, s); err != nil {
		return nil, nil, kh, err
	}
	if b, err = newCGO(ks, s); err != nil {
		return nil, nil, kh, err
	}
	return f, b, kh, readKeys(ks, kh[:])
}

// NewCGOClient reads the keys of the client's side of a CGO hop (AES-128). The
// handshake must have agreed on CGO: it is not negotiated here.
func NewCGOClient(ks io.Reader) (*Client, error) {
	f, b, kh, err := cgoKeys(ks, decrypts)
	if err != nil {
		return nil, err
	}
	return &Client{Forward: &cgoClientForward{*f}, Backward: &cgoClientBackward{*b}, Format: cell.RelayV1, KH: kh}, nil
}

// NewCGORendezvous reads the keys of a CGO hop between an onion service and its
// client (docs/spec/cgo-onions.md). Both parties are clients of their own circuits,
// and the service has the relay's directions: it encrypts, and its client decrypts.
// The key stream goes on with bytes that nobody uses: there is no KH.
func NewCGORendezvous(ks io.Reader, service bool) (*Client, error) {
	if !service {
		l, err := NewCGOClient(ks)
		if err != nil {
			return nil, err
		}
		l.KH = [20]byte{}
		return l, nil
	}
	l, err := NewCGORelay(ks)
	if err != nil {
		return nil, err
	}
	return &Client{Forward: l.Backward, Backward: l.Forward, Format: l.Format}, nil
}

// NewCGORelay reads the keys of the relay's side of a CGO hop.
func NewCGORelay(ks io.Reader) (*Relay, error) {
	f, b, kh, err := cgoKeys(ks, encrypts)
	if err != nil {
		return nil, err
	}
	return &Relay{Forward: &cgoRelayForward{*f}, Backward: &cgoRelayBackward{*b}, Format: cell.RelayV1, KH: kh}, nil
}
