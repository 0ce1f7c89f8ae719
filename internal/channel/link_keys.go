package channel

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Lifetimes of the certificates, as in C tor.
const (
	linkLife    = 2 * 24 * time.Hour // link and authentication certificates
	rsaX509Life = 365 * 24 * time.Hour
	crossLife   = 180 * 24 * time.Hour
	// The TLS key is RSA of 2,048 bits, as C tor's. Its signature is 72 % of what the handshakes of a link cost a relay, and
	// why Chive needs more processor time for them than C tor: Go's takes 0.78 ms, OpenSSL's 0.21. These ways were looked at:
	//   - a P-256 key takes a twentieth of the time, but C tor logs a warning of OpenSSL, "expecting an rsa key", for each
	//     link to such a relay, a client of C tor's as well: it reads the key of each certificate as RSA (tor_x509_cert_new);
	//   - C tor and Go take RSA of 1,024 bits, by a third of the time, but the link would be weaker than C tor's;
	//   - Go's RSA of three primes is slower than that of two;
	//   - C tor neither gives nor takes session tickets, and one would tell that a client comes back.
	tlsLeafKeyBits = 2048
	// obsoleteKeyBits is the size of the key that C tor's CERTS has for an AUTHENTICATE that is gone.
	obsoleteKeyBits = 1024
)

// RelayIdentity holds a relay's long-lived keys, without the Ed25519 identity key: that may
// stay offline, where it signs SigningCert.
type RelayIdentity struct {
	RSA         *rsa.PrivateKey // identity key of 1024 bits
	Signing     *cert.ExpandedKey
	SigningCert []byte // type 4: the identity key certifies the signing key; it includes the identity key
	// NewRSA makes the RSA keys of a number of bits that NewRelayKeys needs; nil: rsa.GenerateKey.
	NewRSA func(bits int) (*rsa.PrivateKey, error)
}

// NewRelayIdentity certifies a signing key with the Ed25519 identity key until expires (C
// tor's signing keys live for 30 days).
func NewRelayIdentity(rsaKey *rsa.PrivateKey, identity, signing *cert.ExpandedKey, expires time.Time) *RelayIdentity {
	c := cert.Ed25519{
		Type: cert.IdentityVSigning, Expires: expires, KeyType: cert.KeyEd25519, Key: signing.Public(),
		Signer: identity.Public(), HasSigner: true,
	}
	return &RelayIdentity{RSA: rsaKey, Signing: signing, SigningCert: c.Encode(identity.Sign)}
}

// RelayKeys holds all keys and certificates that a relay needs in link handshakes. It is
// immutable: before Expires, a relay makes new RelayKeys for new handshakes.
type RelayKeys struct {
	ID      ident.RelayID
	Expires time.Time // when the first certificate expires

	made      time.Time
	rsaSHA256 [32]byte
	server    *tls.Config // of a responder; links share it
	leafSum   [32]byte    // SHA-256 of the TLS certificate
	auth      ed25519.PrivateKey
	responder []byte // body of CERTS as responder
	initiator []byte // body of CERTS as initiator
}

// NewRelayKeys makes the short-lived keys and certificates: a TLS key with a certificate
// that looks like C tor's, a link certificate over it, and an authentication key. It takes
// about 100 ms to make the RSA keys.
func (id *RelayIdentity) NewRelayKeys(rand io.Reader, now time.Time) (*RelayKeys, error) {
	signing, err := cert.ParseEd25519(id.SigningCert)
	if err != nil {
		return nil, fault.New(fault.Config, "relay identity: %w", err)
	}
	if !signing.HasSigner || signing.Key != id.Signing.Public() {
		return nil, fault.New(fault.Config, "relay identity: the signing certificate is for another key, or does not include the identity")
	}
	if err := signing.Verify(cert.IdentityVSigning, signing.Signer, now); err != nil {
		return nil, fault.New(fault.Config, "relay identity: %w", err)
	}
	// Remove the monotonic reading: that clock stops while the machine is suspended.
	now = now.Round(0)
	k := &RelayKeys{Expires: now.Add(linkLife), made: now}
	if signing.Expires.Before(k.Expires) {
		k.Expires = signing.Expires
	}
	k.ID.Ed = signing.Signer
	k.ID.RSA, k.rsaSHA256 = cert.RSAKeyID(&id.RSA.PublicKey)

	x, err := k.makeX509(rand, now, id)
	if err != nil {
		return nil, err
	}
	cross, err := cert.SignRSACross(id.RSA, k.ID.Ed, now.Add(crossLife))
	if err != nil {
		return nil, err
	}
	if _, k.auth, err = ed25519.GenerateKey(rand); err != nil {
		return nil, fault.New(fault.Local, "relay keys: authentication key: %w", err)
	}
	link := cert.Ed25519{Type: cert.SigningVTLS, Expires: k.Expires, KeyType: cert.KeySHA256OfX509, Key: k.leafSum}
	auth := cert.Ed25519{Type: cert.SigningVLinkAuth, Expires: k.Expires, KeyType: cert.KeyEd25519, Key: cert.IdentityOf(k.auth)}
	sign := cert.Signer(id.Signing.Sign)
	// C tor's CERTS begins with a certificate that is of no use any more. So does this one: a watcher sees its length.
	certs := func(obsolete, ed cell.Cert) []byte {
		return cell.Certs{obsolete, {Type: cell.CertRSAID, Body: x.identity}, {Type: cell.CertEdSigning, Body: id.SigningCert}, ed,
			{Type: cell.CertRSAEdIdentity, Body: cross}}.Append(nil)
	}
	k.responder = certs(cell.Cert{Type: cell.CertTLSLinkX509, Body: x.leaf}, cell.Cert{Type: cell.CertEdLink, Body: link.Encode(sign)})
	k.initiator = certs(cell.Cert{Type: cell.CertRSAAuthX509, Body: x.auth}, cell.Cert{Type: cell.CertEdAuth, Body: auth.Encode(sign)})
	return k, nil
}

// Last reports whether the keys are valid at now and for the duration more after it. It is
// false if a clock that was ahead made the keys and was set back since.
func (k *RelayKeys) Last(now time.Time, more time.Duration) bool {
	return k.Expires.Sub(now) >= more && k.made.Sub(now) < time.Hour
}

// Age returns how old the keys are.
func (k *RelayKeys) Age(now time.Time) time.Duration { return now.Sub(k.made) }

// x509s are a relay's X.509 certificates.
type x509s struct {
	leaf     []byte // of TLS
	auth     []byte // of a key that nobody uses any more
	identity []byte
}

// makeX509 makes the certificates, and stores that of TLS with its key in k.
func (k *RelayKeys) makeX509(rand io.Reader, now time.Time, id *RelayIdentity) (*x509s, error) {
	identity, generate := id.RSA, id.NewRSA
	if generate == nil {
		generate = func(bits int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand, bits) }
	}
	var keys [2]*rsa.PrivateKey // of TLS, and of the obsolete AUTHENTICATE
	for i, bits := range []int{tlsLeafKeyBits, obsoleteKeyBits} {
		var err error
		if keys[i], err = generate(bits); err != nil {
			return nil, fault.New(fault.Local, "relay keys: TLS key: %w", err)
		}
	}
	tlsLife, err := cert.LinkLife(rand)
	if err != nil {
		return nil, err
	}
	subject, err := cert.RandomHostname(rand, 8, 20, ".net")
	if err != nil {
		return nil, err
	}
	issuer, err := cert.RandomHostname(rand, 8, 20, ".com")
	if err != nil {
		return nil, err
	}
	make := func(subject string, life time.Duration, pub *rsa.PublicKey) ([]byte, error) {
		c := cert.X509{Subject: subject, Issuer: issuer}
		if c.NotBefore, c.NotAfter, err = cert.Lifetime(rand, now, life); err != nil {
			return nil, err
		}
		return c.Sign(rand, pub, identity)
	}
	var out x509s
	if out.leaf, err = make(subject, tlsLife, &keys[0].PublicKey); err != nil {
		return nil, err
	}
	if out.auth, err = make(subject, tlsLife, &keys[1].PublicKey); err != nil {
		return nil, err
	}
	if out.identity, err = make(issuer, rsaX509Life, &identity.PublicKey); err != nil {
		return nil, err
	}
	k.server = serverTLS(tls.Certificate{Certificate: [][]byte{out.leaf}, PrivateKey: keys[0]})
	k.leafSum = sha256.Sum256(out.leaf)
	return &out, nil
}

// serverTLS returns the TLS configuration of a responder. It asks for no
// certificate: an initiator that has an identity proves it by AUTHENTICATE. So TLS
// never asks for the time.
func serverTLS(leaf tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{leaf},
		MinVersion:             tls.VersionTLS13,
		CurvePreferences:       curves,
		SessionTicketsDisabled: true, // a ticket would identify a returning client
		// Write one record from the start; the scheduler bounds the latency.
		DynamicRecordSizingDisabled: true,
	}
}
