// Package cert reads, checks and makes the certificates of the Tor protocol:
// Ed25519 certificates and the RSA cross-certificate (cert-spec), and the X.509
// certificates of the RSA identity and of the TLS layer (tor-spec, "CERTS
// cells"). The time at which a certificate must be valid is a parameter.
package cert

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// ErrExpired is in the chain of the error for an expired certificate. A wrong clock,
// of the peer or of this machine, may be the cause.
var ErrExpired = errors.New("certificate has expired")

// ErrNotYetValid is in the chain of the error for a certificate that is not valid
// yet.
var ErrNotYetValid = errors.New("certificate is not valid yet")

// Type says what an Ed25519 certificate certifies, and with which key.
type Type uint8

// Types of Ed25519 certificates; AVB means that A certifies B, and ACCB is the
// cross-certificate in the other direction.
const (
	IdentityVSigning Type = 0x04 // a relay's signing key
	SigningVTLS      Type = 0x05 // the SHA-256 of a TLS certificate
	SigningVLinkAuth Type = 0x06 // the key that signs AUTHENTICATE
	BlindedVSigning  Type = 0x08 // an onion service's descriptor signing key
	HSIntroVSigning  Type = 0x09 // an introduction point's authentication key
	NtorCCIdentity   Type = 0x0a // a relay's identity, signed by its onion key
	HSIntroCCSigning Type = 0x0b // an introduction point's encryption key
	FamilyVIdentity  Type = 0x0c // a relay's identity, signed by its family's key
)

const (
	version           = 1
	extSignedWith     = 4 // extension type: the signing key
	extAffectsValid   = 1 // extension flag: refuse the certificate if the extension is unknown
	minEd25519CertLen = 1 + 1 + 4 + 1 + 32 + 1 + ed25519.SignatureSize
)

// KeyType says the meaning of the certified 32 bytes.
type KeyType uint8

// Key types.
const (
	KeyEd25519      KeyType = 1 // an Ed25519 public key
	KeySHA256OfRSA  KeyType = 2 // the SHA-256 of an RSA public key
	KeySHA256OfX509 KeyType = 3 // the SHA-256 of an X.509 certificate
)

// Ext is an extension of an unknown type that does not affect validation.
type Ext struct {
	Type, Flags uint8
	Body        []byte
}

// Ed25519 is an Ed25519 certificate. It proves nothing until Verify succeeds.
type Ed25519 struct {
	Type      Type
	Expires   time.Time // whole hours; valid up to and including this instant
	KeyType   KeyType
	Key       [32]byte        // the certified key or digest
	Signer    ident.Ed25519ID // the signing key that the certificate includes
	HasSigner bool            // whether it includes one
	Exts      []Ext           // other extensions, in order

	signed    []byte
	signature []byte
}

// ParseEd25519 reads a certificate that fills b. The certificate keeps a reference
// to b. It refuses a version other than 1, an unknown extension that affects
// validation, two signing keys, and bytes that are left over.
func ParseEd25519(b []byte) (*Ed25519, error) {
	r := bin.NewReader("Ed25519 certificate", b)
	if v := r.U8(); v != version {
		r.Fail("unknown version %d", v)
	}
	c := &Ed25519{Type: Type(r.U8()), Expires: fromHours(r.U32()), KeyType: KeyType(r.U8())}
	if c.Type == SigningVTLS && c.KeyType == KeyEd25519 {
		c.KeyType = KeySHA256OfX509 // C tor before 0.4.5 named the wrong type here
	}
	r.Copy(c.Key[:])
	for range r.U8() {
		n := int(r.U16())
		e := Ext{Type: r.U8(), Flags: r.U8(), Body: r.Bytes(n)}
		if r.Err() != nil {
			return nil, r.Err()
		}
		switch {
		case e.Type == extSignedWith && (n != len(c.Signer) || c.HasSigner):
			r.Fail("signing key of %d bytes, or a second one", n)
		case e.Type == extSignedWith:
			copy(c.Signer[:], e.Body)
			c.HasSigner = true
		case e.Flags&extAffectsValid != 0:
			r.Fail("extension of unknown type %d affects validation", e.Type)
		default:
			c.Exts = append(c.Exts, e)
		}
	}
	c.signed = b[:r.Offset()]
	c.signature = r.Bytes(ed25519.SignatureSize)
	if err := r.End(); err != nil {
		return nil, err
	}
	return c, nil
}

// Verify checks that the certificate has type want, is signed by signer, names no
// other signing key, and is valid at now. For a certificate that includes its
// signing key, check c.HasSigner and pass c.Signer.
func (c *Ed25519) Verify(want Type, signer ident.Ed25519ID, now time.Time) error {
	switch {
	case c.Type != want:
		return fault.New(fault.Protocol, "Ed25519 certificate of type %d, not %d", c.Type, want)
	case c.HasSigner && !c.Signer.Equal(signer):
		return fault.New(fault.Protocol, "Ed25519 certificate of type %d: it names another signing key", c.Type)
	case !ed25519.Verify(signer[:], c.signed, c.signature):
		return fault.New(fault.Protocol, "Ed25519 certificate of type %d: the signature is wrong", c.Type)
	case now.After(c.Expires):
		return expired(now, c.Expires, "Ed25519 certificate of type %d", c.Type)
	}
	return nil
}

// expired returns an error that says how long ago the certificate expired. Its kind
// is Protocol, as for any other bad certificate; ErrExpired is in its chain.
func expired(now, end time.Time, format string, args ...any) error {
	return fault.New(fault.Protocol, format+": %w (%v ago)", append(args, ErrExpired, now.Sub(end).Round(time.Second))...)
}

// Signer signs a message with an Ed25519 key: ed25519.Sign with a private key, or
// something else for a blinded one.
type Signer func(message []byte) (signature []byte)

// SignerOf returns the Signer of an ordinary key.
func SignerOf(key ed25519.PrivateKey) Signer {
	return func(m []byte) []byte { return ed25519.Sign(key, m) }
}

// Encode signs the certificate and returns its encoding. Expires is rounded up to a
// whole hour; Signer is included if HasSigner is set. It panics on values that do
// not fit into the format: they are bugs of the caller.
func (c *Ed25519) Encode(sign Signer) []byte {
	b := make([]byte, 0, minEd25519CertLen+36)
	b = append(b, version, byte(c.Type))
	b = binary.BigEndian.AppendUint32(b, toHours(c.Expires))
	b = append(b, byte(c.KeyType))
	b = append(b, c.Key[:]...)
	exts := c.Exts
	if c.HasSigner {
		exts = append([]Ext{{Type: extSignedWith, Body: c.Signer[:]}}, exts...)
	}
	if len(exts) > 255 {
		panic("cert: more than 255 extensions")
	}
	b = append(b, byte(len(exts)))
	for _, e := range exts {
		if len(e.Body) > math.MaxUint16 {
			panic("cert: extension longer than 65535 bytes")
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(e.Body)))
		b = append(b, e.Type, e.Flags)
		b = append(b, e.Body...)
	}
	return append(b, sign(b)...)
}

// IdentityOf returns the public half of key as an identity.
func IdentityOf(key ed25519.PrivateKey) ident.Ed25519ID {
	return ident.Ed25519ID(key.Public().(ed25519.PublicKey))
}

func fromHours(h uint32) time.Time { return time.Unix(int64(h)*3600, 0).UTC() }

// toHours rounds up, so that a certificate lives at least as long as requested. It
// panics on a time that does not fit into 32 bits of hours.
func toHours(t time.Time) uint32 {
	h := (t.Unix() + 3599) / 3600
	if h < 0 || h > math.MaxUint32 {
		panic("cert: expiry out of range")
	}
	return uint32(h)
}
