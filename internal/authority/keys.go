package authority

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/youmark/pkcs8"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Keys are the keys with which an authority signs. The v3 identity key is not one
// of them: it may stay offline.
type Keys struct {
	Cert    *netdoc.AuthCert // the identity key vouches for Signing
	Signing *rsa.PrivateKey
	// RSA and Ed are the identities of the authority as a relay, for its ORPort.
	RSA *rsa.PrivateKey
	Ed  *cert.ExpandedKey
}

// Sizes of keys, as tor-gencert makes them; relays' RSA keys are of 1024 bits.
const (
	identityBits = 3072
	signingBits  = 2048
	relayBits    = 1024
)

// Names of files in a key directory, as C tor has them.
const (
	IdentityFile    = "authority_identity_key"
	SigningFile     = "authority_signing_key"
	CertificateFile = "authority_certificate"
	relayRSAFile    = "secret_id_key"
	relayEdFile     = "ed25519_master_id_secret_key"
)

// edTag begins C tor's file of an Ed25519 secret key, padded with zeros to 32
// bytes.
const edTag = "== ed25519v1-secret: type0 =="

// GenerateIdentity makes a v3 identity key.
func GenerateIdentity(rand io.Reader) (*rsa.PrivateKey, error) {
	k, err := rsa.GenerateKey(rand, identityBits)
	return k, wrapLocal("v3 identity key", err)
}

// Certify makes a signing key and a certificate for it, which is valid for the
// given number of months. address is the DirPort, or invalid.
func Certify(rand io.Reader, identity *rsa.PrivateKey, address netip.AddrPort, now time.Time, months int) (*Keys, error) {
	if months < 1 || months > 24 {
		return nil, fault.New(fault.Config, "a certificate for %d months: 1 to 24 are possible", months)
	}
	signing, err := rsa.GenerateKey(rand, signingBits)
	if err != nil {
		return nil, wrapLocal("signing key", err)
	}
	now = now.UTC().Truncate(time.Second)
	crt, err := netdoc.MakeAuthCert(rand, identity, signing, address, now, now.AddDate(0, months, 0))
	return &Keys{Cert: crt, Signing: signing}, err
}

// AddRelayIdentity makes the relay identities.
func (k *Keys) AddRelayIdentity(rand io.Reader) (err error) {
	if k.RSA, err = rsa.GenerateKey(rand, relayBits); err != nil {
		return wrapLocal("relay identity key", err)
	}
	k.Ed, err = cert.GenerateExpanded(rand)
	return err
}

// EncodeIdentity writes a v3 identity key as PEM, encrypted unless passphrase
// is empty (PKCS#8 with PBKDF2 and AES-256, which tor-gencert reads).
func EncodeIdentity(k *rsa.PrivateKey, passphrase []byte) ([]byte, error) {
	kind := "ENCRYPTED PRIVATE KEY"
	var der []byte
	var err error
	if len(passphrase) == 0 {
		kind = "PRIVATE KEY"
		der, err = x509.MarshalPKCS8PrivateKey(k)
	} else {
		der, err = pkcs8.MarshalPrivateKey(k, passphrase, &pkcs8.Opts{Cipher: pkcs8.AES256CBC,
			KDFOpts: pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 600_000, HMACHash: crypto.SHA256}})
	}
	if err != nil {
		return nil, wrapLocal("v3 identity key", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), nil
}

// ParseRSA reads an RSA key in PEM, in any form that OpenSSL writes today.
func ParseRSA(text, passphrase []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fault.New(fault.Config, "RSA key: no PEM block")
	}
	var k any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		k, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		k, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		if len(passphrase) == 0 {
			return nil, fault.New(fault.Config, "RSA key: it is encrypted, and there is no passphrase")
		}
		k, err = pkcs8.ParsePKCS8PrivateKey(block.Bytes, passphrase)
	default:
		return nil, fault.New(fault.Config, "RSA key: a PEM block of type %.40q", block.Type)
	}
	if err != nil {
		return nil, fault.New(fault.Config, "RSA key: %w", err)
	}
	key, ok := k.(*rsa.PrivateKey)
	if !ok {
		return nil, fault.New(fault.Config, "RSA key: it is a %T", k)
	}
	return key, nil
}

// LoadKeys reads the keys from a directory in C tor's formats. It makes the relay
// identities if they are missing.
func LoadKeys(dir string, rand io.Reader, now time.Time) (*Keys, error) {
	k := new(Keys)
	text, err := os.ReadFile(filepath.Join(dir, CertificateFile))
	if err != nil {
		return nil, fault.New(fault.Config, "authority keys: %w (make them with \"chive keys certify\")", err)
	}
	if k.Cert, err = netdoc.ParseAuthCert(text); err != nil {
		return nil, badKey(dir, CertificateFile, err)
	}
	if err := k.Cert.CheckTime(now); err != nil {
		return nil, badKey(dir, CertificateFile, err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, SigningFile)); err != nil {
		return nil, fault.New(fault.Config, "authority keys: %w", err)
	}
	if k.Signing, err = ParseRSA(text, nil); err != nil {
		return nil, badKey(dir, SigningFile, err)
	}
	if netdoc.RSADigest(&k.Signing.PublicKey) != k.Cert.Signing {
		return nil, fault.New(fault.Config, "authority keys: the certificate is for another signing key")
	}
	err = k.loadRelay(dir)
	if os.IsNotExist(err) {
		if err = k.AddRelayIdentity(rand); err == nil {
			err = k.saveRelay(dir)
		}
	}
	return k, err
}

// ExposedKeys returns the secret files of a key directory that users other than
// the owner can access, or the directory itself.
func ExposedKeys(dir string) []string {
	return atomicfile.Exposed(dir, IdentityFile, SigningFile, relayRSAFile, relayEdFile)
}

// badKey returns the error for a key that cannot be used; it names the file.
func badKey(dir, file string, err error) error {
	return fault.New(fault.Config, "authority keys: %s: %w", filepath.Join(dir, file), err)
}

func (k *Keys) loadRelay(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, relayRSAFile))
	if err != nil {
		return err
	}
	if k.RSA, err = ParseRSA(text, nil); err != nil {
		return badKey(dir, relayRSAFile, err)
	}
	ed, err := os.ReadFile(filepath.Join(dir, relayEdFile))
	if err != nil {
		return fault.New(fault.Config, "authority keys: there is an RSA relay identity, but no Ed25519 one: %s", relayEdFile)
	}
	head := make([]byte, 32)
	copy(head, edTag)
	if len(ed) != 96 || !bytes.Equal(ed[:32], head) {
		return fault.New(fault.Config, "authority keys: %s is no Ed25519 secret key", relayEdFile)
	}
	k.Ed, err = cert.NewExpanded(ed[32:])
	return err
}

func (k *Keys) saveRelay(dir string) error {
	head := make([]byte, 32)
	copy(head, edTag)
	ed := append(head, k.Ed.Bytes()...)
	if err := WriteSecret(filepath.Join(dir, relayEdFile), ed); err != nil {
		return err
	}
	return WriteSecret(filepath.Join(dir, relayRSAFile), encodeRSA(k.RSA))
}

// encodeRSA writes a key in the only form in which C tor reads those of its key directory.
func encodeRSA(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

// Save writes the signing key and the certificate to a directory, and the
// relay identities when there are any.
func (k *Keys) Save(dir string) error {
	if err := WriteSecret(filepath.Join(dir, SigningFile), encodeRSA(k.Signing)); err != nil {
		return err
	}
	if err := WriteSecret(filepath.Join(dir, CertificateFile), k.Cert.Text); err != nil {
		return err
	}
	if k.RSA == nil {
		return nil
	}
	return k.saveRelay(dir)
}

// WriteSecret writes a file that only its owner may read. It writes the complete
// file or nothing.
func WriteSecret(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return atomicfile.Write(path, b, atomicfile.Secret)
}

func wrapLocal(what string, err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Local, "%s: %w", what, err)
}
