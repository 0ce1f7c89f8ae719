package relay

import (
	"time"

	"github.com/chivenet/chive/internal/relay"
)

// MakeFamilyKey makes the key of a family of relays (proposal 321) in the files
// name.secret_family_key and name.public_family_id, which are C tor's too, and
// returns the family's identity. Every relay of the family needs the secret
// file below "keys" in its data directory, and the identity among its
// FamilyIDs. A key that is there is not replaced.
func MakeFamilyKey(name string) (id string, err error) { return relay.MakeFamilyKey(name) }

// Keys are the public names of a relay's keys.
type Keys struct {
	RSA     string    // identity, in hexadecimal
	Ed25519 string    // master key, in base64
	Expires time.Time // of the signing key's certificate
	// Files are those that the relay needs, below "keys" in its data directory:
	// all but the master key's secret half.
	Files []string
}

// MakeKeys makes, in a directory that is kept away from the relay, its
// identities where they are missing, and a new signing key with a certificate
// for life. A relay with OfflineMasterKey lives on the files that are named in
// the result, and needs new ones before the certificate expires.
func MakeKeys(dir string, life time.Duration) (*Keys, error) {
	c, err := relay.CertifyKeys(dir, life, time.Now())
	if err != nil {
		return nil, err
	}
	return &Keys{RSA: c.ID.RSA.String(), Ed25519: c.ID.Ed.String(), Expires: c.Expires, Files: c.Copy}, nil
}
