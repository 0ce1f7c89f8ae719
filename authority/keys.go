package authority

import (
	"crypto/rand"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Keys are the public identities of an authority.
type Keys struct {
	V3Ident string // of the v3 identity key, in hexadecimal
	RSA     string // relay identity, in hexadecimal
	Ed25519 string // relay identity, in base64
	Expires time.Time
}

// maxIdentity bounds the file of an identity key: one of 16384 bits takes less.
const maxIdentity = 64 << 10

// MakeKeys makes the keys with which a directory authority signs, in the
// directory dir: a v3 identity key if there is none, encrypted unless passphrase
// is empty, and a new signing key with a certificate that is valid for the given
// number of months. address is the DirPort, or "". The files have the formats of
// C tor and tor-gencert.
func MakeKeys(dir, address string, months int, passphrase []byte) (*Keys, error) {
	var addr netip.AddrPort
	if address != "" {
		var err error
		if addr, err = netip.ParseAddrPort(address); err != nil {
			return nil, fault.New(fault.Config, "address: %q is not IP:PORT", address)
		}
	}
	path := filepath.Join(dir, authority.IdentityFile)
	text, err := atomicfile.Read(path, maxIdentity)
	if errors.Is(err, os.ErrNotExist) {
		text, err = newIdentity(path, rand.Reader, passphrase)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	identity, err := authority.ParseRSA(text, passphrase)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: %w", path, err)
	}
	k, err := authority.Certify(rand.Reader, identity, addr, time.Now(), months)
	if err != nil {
		return nil, err
	}
	if err := k.Save(dir); err != nil {
		return nil, err
	}
	return LoadKeys(dir)
}

func newIdentity(path string, random io.Reader, passphrase []byte) ([]byte, error) {
	identity, err := authority.GenerateIdentity(random)
	if err != nil {
		return nil, err
	}
	text, err := authority.EncodeIdentity(identity, passphrase)
	if err != nil {
		return nil, err
	}
	return text, authority.WriteSecret(path, text)
}

// LoadKeys reads a key directory. It makes the relay identities if they are
// missing.
func LoadKeys(dir string) (*Keys, error) {
	k, err := authority.LoadKeys(dir, rand.Reader, time.Now())
	if err != nil {
		return nil, err
	}
	return &Keys{V3Ident: k.Cert.Identity.String(), RSA: netdoc.RSADigest(&k.RSA.PublicKey).String(), Ed25519: k.Ed.Public().String(), Expires: k.Cert.Expires}, nil
}
