package channel

import (
	"errors"
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// peerCerts holds what a valid CERTS cell proves.
type peerCerts struct {
	id        ident.RelayID
	rsaSHA256 [32]byte        // SHA-256 of the RSA identity key, as in AUTHENTICATE
	auth      ident.Ed25519ID // the key with which an initiator signs AUTHENTICATE
}

// certNames names the certificates of a CERTS cell that a chain needs.
var certNames = map[uint8]string{
	cell.CertRSAID:         "RSA identity",
	cell.CertEdSigning:     "identity to signing key",
	cell.CertEdLink:        "signing key to TLS certificate",
	cell.CertEdAuth:        "signing key to authentication key",
	cell.CertRSAEdIdentity: "RSA to Ed25519 identity",
}

func findCert(certs cell.Certs, typ uint8) ([]byte, error) {
	b, ok := certs.Find(typ)
	if !ok {
		return nil, fault.New(fault.Protocol, "CERTS: no certificate of type %d (%s)", typ, certNames[typ])
	}
	return b, nil
}

// certError adds the name of a certificate of the cell to an error.
func certError(typ uint8, err error) error {
	return fault.New(fault.Protocol, "CERTS: type %d (%s): %w", typ, certNames[typ], err)
}

// checkResponder checks a responder's chain: Ed25519 identity -> signing key ->
// SHA-256 of the TLS certificate, and RSA identity -> Ed25519 identity
// (tor-spec, "CERTS cells").
func checkResponder(certs cell.Certs, tlsDigest [32]byte, now time.Time) (*peerCerts, error) {
	p, signing, err := checkIdentity(certs, now)
	if err != nil {
		return nil, err
	}
	link, err := edCert(certs, cell.CertEdLink, cert.SigningVTLS, cert.KeySHA256OfX509, signing, now)
	if err != nil {
		return nil, err
	}
	if link.Key != tlsDigest {
		return nil, certError(cell.CertEdLink, errors.New("it is for another TLS certificate"))
	}
	return p, nil
}

// checkInitiator checks an initiator's chain, which ends in the key that must
// sign AUTHENTICATE.
func checkInitiator(certs cell.Certs, now time.Time) (*peerCerts, error) {
	p, signing, err := checkIdentity(certs, now)
	if err != nil {
		return nil, err
	}
	auth, err := edCert(certs, cell.CertEdAuth, cert.SigningVLinkAuth, cert.KeyEd25519, signing, now)
	if err != nil {
		return nil, err
	}
	p.auth = auth.Key
	return p, nil
}

// checkIdentity checks the part that both chains share: both identities, which
// must certify each other, and the signing key.
func checkIdentity(certs cell.Certs, now time.Time) (*peerCerts, ident.Ed25519ID, error) {
	none := ident.Ed25519ID{}
	signing, err := edCert(certs, cell.CertEdSigning, cert.IdentityVSigning, cert.KeyEd25519, none, now)
	if err != nil {
		return nil, none, err
	}
	b, err := findCert(certs, cell.CertRSAID)
	if err != nil {
		return nil, none, err
	}
	rsaID, err := cert.ParseRSAIdentity(b)
	if err != nil {
		return nil, none, certError(cell.CertRSAID, err)
	}
	if err := rsaID.CheckTime(now); err != nil {
		return nil, none, certError(cell.CertRSAID, err)
	}
	if b, err = findCert(certs, cell.CertRSAEdIdentity); err != nil {
		return nil, none, err
	}
	cross, err := cert.ParseRSACross(b)
	if err != nil {
		return nil, none, certError(cell.CertRSAEdIdentity, err)
	}
	if err := cross.Verify(rsaID.Key, now); err != nil {
		return nil, none, certError(cell.CertRSAEdIdentity, err)
	}
	if !cross.Key.Equal(signing.Signer) {
		return nil, none, certError(cell.CertRSAEdIdentity, errors.New("it is for another Ed25519 identity"))
	}
	return &peerCerts{id: ident.RelayID{RSA: rsaID.ID, Ed: signing.Signer}, rsaSHA256: rsaID.SHA256}, signing.Key, nil
}

// edCert reads and checks one Ed25519 certificate of the cell. If signer is zero,
// the certificate must include the key that signed it: the identity.
func edCert(certs cell.Certs, typ uint8, want cert.Type, key cert.KeyType, signer ident.Ed25519ID, now time.Time) (*cert.Ed25519, error) {
	b, err := findCert(certs, typ)
	if err != nil {
		return nil, err
	}
	c, err := cert.ParseEd25519(b)
	if err != nil {
		return nil, certError(typ, err)
	}
	if signer.IsZero() {
		if !c.HasSigner {
			return nil, certError(typ, errors.New("it does not include the identity key"))
		}
		signer = c.Signer
	}
	if c.KeyType != key {
		return nil, certError(typ, fmt.Errorf("key of type %d, not %d", c.KeyType, key))
	}
	if err := c.Verify(want, signer, now); err != nil {
		return nil, certError(typ, err)
	}
	return c, nil
}
