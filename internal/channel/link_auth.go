package channel

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// The body of AUTHENTICATE with method Ed25519-SHA256-RFC5705 (tor-spec, "Link
// authentication type 3"):
//
//	  0  "AUTH0003"
//	  8  SHA-256 of the initiator's RSA identity key
//	 40  SHA-256 of the responder's RSA identity key
//	 72  the initiator's Ed25519 identity
//	104  the responder's Ed25519 identity
//	136  SHA-256 of what the responder sent, up to and with AUTH_CHALLENGE
//	168  SHA-256 of what the initiator sent, up to and with CERTS
//	200  SHA-256 of the responder's TLS certificate
//	232  keying material exported from TLS
//	264  random, 24 bytes
//	288  Ed25519 signature over all the above
const (
	authTag      = "AUTH0003"
	authLabel    = "EXPORTER FOR TOR TLS CLIENT BINDING " + authTag
	authRandom   = 264
	authSigned   = 288
	authBodySize = authSigned + ed25519.SignatureSize
)

// authFields holds the fields of AUTHENTICATE that both ends know.
type authFields struct {
	initiatorRSA, responderRSA [32]byte
	initiatorEd, responderEd   ident.Ed25519ID
	responderLog, initiatorLog [32]byte
	tlsCert                    [32]byte
}

// fixed returns the part of the body before the random bytes.
func (a *authFields) fixed(state *tls.ConnectionState) ([]byte, error) {
	secret, err := state.ExportKeyingMaterial(authLabel, a.initiatorRSA[:], 32)
	if err != nil {
		return nil, fault.New(fault.Local, "AUTHENTICATE: exporting TLS keying material: %w", err)
	}
	b := make([]byte, 0, authBodySize)
	b = append(b, authTag...)
	for _, f := range [][]byte{a.initiatorRSA[:], a.responderRSA[:], a.initiatorEd[:], a.responderEd[:], a.responderLog[:], a.initiatorLog[:], a.tlsCert[:], secret} {
		b = append(b, f...)
	}
	return b, nil
}

// authenticate makes the AUTHENTICATE cell of an initiator.
func (a *authFields) authenticate(rand io.Reader, state *tls.ConnectionState, key ed25519.PrivateKey) (*cell.Authenticate, error) {
	b, err := a.fixed(state)
	if err != nil {
		return nil, err
	}
	b = b[:authSigned]
	if _, err := io.ReadFull(rand, b[authRandom:]); err != nil {
		return nil, fault.New(fault.Local, "AUTHENTICATE: random bytes: %w", err)
	}
	return &cell.Authenticate{Method: cell.AuthMethodEd25519, Body: append(b, ed25519.Sign(key, b)...)}, nil
}

// check checks an initiator's AUTHENTICATE cell with the key that its CERTS cell
// certifies.
func (a *authFields) check(m *cell.Authenticate, state *tls.ConnectionState, key ident.Ed25519ID) error {
	if m.Method != cell.AuthMethodEd25519 {
		return fault.New(fault.Protocol, "AUTHENTICATE: method %d was not offered", m.Method)
	}
	if len(m.Body) != authBodySize {
		return fault.New(fault.Protocol, "AUTHENTICATE: body of %d bytes, not %d", len(m.Body), authBodySize)
	}
	want, err := a.fixed(state)
	if err != nil {
		return err
	}
	for i, name := range []string{"type", "initiator's RSA identity", "responder's RSA identity", "initiator's Ed25519 identity", "responder's Ed25519 identity",
		"responder's log", "initiator's log", "TLS certificate", "TLS keying material"} {
		from, to := 8+32*(i-1), 8+32*i
		if i == 0 {
			from = 0
		}
		if !bytes.Equal(want[from:to], m.Body[from:to]) {
			return fault.New(fault.Protocol, "AUTHENTICATE: the %s does not match", name)
		}
	}
	if !ed25519.Verify(key[:], m.Body[:authSigned], m.Body[authSigned:]) {
		return fault.New(fault.Protocol, "AUTHENTICATE: the signature is wrong")
	}
	return nil
}
