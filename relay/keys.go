package relay

import (
	"time"

	"github.com/chivenet/chive/internal/relay"
)

// MakeFamilyKey makes the key of a family of relays (proposal 321) in the files
// name.secret_family_key and name.public_family_id, with C tor's names and
// formats, and returns the family's identity. Every relay of the family needs the
// secret file below "keys" in its data directory, and the identity among its
// FamilyIDs. An existing key is not replaced.
func MakeFamilyKey(name string) (id string, err error) { return relay.MakeFamilyKey(name) }

// Keys are a relay's public identities and the files of its keys.
type Keys struct {
	RSA     string    // identity, in hexadecimal
	Ed25519 string    // master key, in base64
	Expires time.Time // of the signing key's certificate
	// Files are the files that the relay needs below "keys" in its data
	// directory: all except the secret half of the master key.
	Files []string
}

// MakeKeys makes the keys of a relay in dir, which is kept away from the relay:
// the identities, if they are missing, and a new signing key with a certificate
// that is valid for the time life. A relay with OfflineMasterKey needs copies of
// the files that the result names, and new copies before the certificate expires.
func MakeKeys(dir string, life time.Duration) (*Keys, error) {
	c, err := relay.CertifyKeys(dir, life, time.Now())
	if err != nil {
		return nil, err
	}
	return &Keys{RSA: c.ID.RSA.String(), Ed25519: c.ID.Ed.String(), Expires: c.Expires, Files: c.Copy}, nil
}
