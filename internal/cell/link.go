package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
)

// Versions is the body of a VERSIONS cell: link protocol versions in the
// sender's order.
type Versions []uint16

// Append writes the body.
func (v Versions) Append(dst []byte) []byte {
	for _, n := range v {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return dst
}

// AppendCell writes the whole VERSIONS cell, with the two-byte circuit ID that
// it alone has.
func (v Versions) AppendCell(dst []byte) []byte {
	dst = append(dst, 0, 0, byte(CmdVersions))
	dst = binary.BigEndian.AppendUint16(dst, uint16(2*len(v)))
	return v.Append(dst)
}

// ParseVersions reads a list to the end of the body; an odd length is refused.
func ParseVersions(b []byte) (Versions, error) {
	r := bin.NewReader("VERSIONS", b)
	v := make(Versions, 0, len(b)/2)
	for r.Len() > 0 {
		v = append(v, r.U16())
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	return v, nil
}

// Certificate types in a CERTS cell (cert-spec, "Certificate types").
const (
	CertTLSLinkX509   = 1 // obsolete: RSA link certificate
	CertRSAID         = 2 // RSA identity key, self-signed X.509
	CertRSAAuthX509   = 3 // obsolete: RSA AUTHENTICATE certificate
	CertEdSigning     = 4 // Ed25519 signing key, signed by the identity key
	CertEdLink        = 5 // SHA-256 of the TLS certificate, signed by the signing key
	CertEdAuth        = 6 // Ed25519 AUTHENTICATE key, signed by the signing key
	CertRSAEdIdentity = 7 // Ed25519 identity key, signed by the RSA identity key
)

// Cert is one certificate of a CERTS cell, not yet parsed.
type Cert struct {
	Type uint8
	Body []byte
}

// Certs is the body of a CERTS cell.
type Certs []Cert

// Append writes the body.
func (c Certs) Append(dst []byte) []byte {
	if len(c) > 255 {
		panic("cell: CERTS: more than 255 certificates")
	}
	dst = append(dst, byte(len(c)))
	for _, e := range c {
		dst = append(dst, e.Type)
		dst = appendVec16(dst, "CERTS", e.Body)
	}
	return dst
}

// Find returns the body of the certificate of a type.
func (c Certs) Find(typ uint8) ([]byte, bool) {
	for _, e := range c {
		if e.Type == typ {
			return e.Body, true
		}
	}
	return nil, false
}

// ParseCerts reads the body. Two certificates of one type are refused.
func ParseCerts(b []byte) (Certs, error) {
	r := bin.NewReader("CERTS", b)
	n := int(r.U8())
	c := make(Certs, 0, min(n, 8))
	var seen [256]bool
	for range n {
		e := Cert{Type: r.U8(), Body: r.Vec16()}
		if r.Err() != nil {
			return nil, r.Err()
		}
		if seen[e.Type] {
			return nil, fault.New(fault.Protocol, "CERTS: two certificates of type %d", e.Type)
		}
		seen[e.Type] = true
		c = append(c, e)
	}
	return c, r.Err()
}

// AuthMethodEd25519 is the AUTHENTICATE method Ed25519-SHA256-RFC5705, the only
// one in use.
const AuthMethodEd25519 = 3

// AuthChallenge is the body of an AUTH_CHALLENGE cell.
type AuthChallenge struct {
	Challenge [32]byte
	Methods   []uint16
}

// Append writes the body.
func (m *AuthChallenge) Append(dst []byte) []byte {
	if len(m.Methods) > 0xffff {
		panic("cell: AUTH_CHALLENGE: too many methods")
	}
	dst = append(dst, m.Challenge[:]...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Methods)))
	for _, n := range m.Methods {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return dst
}

// ParseAuthChallenge reads the body.
func ParseAuthChallenge(b []byte) (AuthChallenge, error) {
	r := bin.NewReader("AUTH_CHALLENGE", b)
	var m AuthChallenge
	r.Copy(m.Challenge[:])
	n := int(r.U16())
	list := bin.NewReader("AUTH_CHALLENGE methods", r.Bytes(2*n))
	if r.Err() != nil {
		return AuthChallenge{}, r.Err()
	}
	m.Methods = make([]uint16, n)
	for i := range m.Methods {
		m.Methods[i] = list.U16()
	}
	return m, nil
}

// Authenticate is the body of an AUTHENTICATE cell.
type Authenticate struct {
	Method uint16
	Body   []byte
}

// Append writes the body.
func (m *Authenticate) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, m.Method)
	return appendVec16(dst, "AUTHENTICATE", m.Body)
}

// ParseAuthenticate reads the body.
func ParseAuthenticate(b []byte) (Authenticate, error) {
	r := bin.NewReader("AUTHENTICATE", b)
	m := Authenticate{Method: r.U16(), Body: r.Vec16()}
	return m, r.Err()
}
