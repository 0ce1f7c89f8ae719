package relay

import (
	"crypto/rand"
	"log/slog"
	"os"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Certified are a relay's identities and its signing key's certificate.
type Certified struct {
	ID      ident.RelayID
	Expires time.Time // of the certificate, in whole hours
	// Copy are the files that the relay needs: all except the master key's secret
	// half.
	Copy []string
}

// CertifyKeys works in the directory where a relay's master key is kept. It makes
// missing identities, and a new signing key with a certificate that is valid for
// life.
func CertifyKeys(path string, life time.Duration, now time.Time) (*Certified, error) {
	if life < 24*time.Hour || life > 10*365*24*time.Hour {
		return nil, fault.New(fault.Config, "keys: a certificate for %v: a day is the least, ten years the most", life)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fault.New(fault.Local, "keys: %w", err)
	}
	dir := keyDir(path)
	rsa, err := dir.rsaKey(fileRSA, generateRSA)
	if err != nil {
		return nil, err
	}
	ed, master, err := dir.master()
	if err != nil {
		return nil, err
	}
	if master == nil {
		return nil, fault.New(fault.Config, "keys: %s is not here: it is what signs", dir.path(fileMaster))
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return nil, err
	}
	id := channel.NewRelayIdentity(rsa, master, signing, now.Add(life))
	signed, err := cert.ParseEd25519(id.SigningCert)
	if err != nil {
		return nil, err
	}
	if err := dir.writeTagged(fileSigning, tagSigning, signing.Bytes()); err != nil {
		return nil, err
	}
	if err := dir.writeTagged(fileSigningCert, tagSigningCert, id.SigningCert); err != nil {
		return nil, err
	}
	out := &Certified{Expires: signed.Expires, Copy: []string{fileRSA, fileMasterPublic, fileSigning, fileSigningCert}}
	out.ID.Ed = ed
	out.ID.RSA, _ = cert.RSAKeyID(&rsa.PublicKey)
	return out, nil
}

// Identities returns a relay's identities from the directory of its keys, and makes those that are missing. With offline, the
// master key is kept elsewhere, and nothing is made.
func Identities(path string, offline bool, log *slog.Logger) (id ident.RelayID, err error) {
	dir := keyDir(path)
	if err := dir.make(); err != nil {
		return id, err
	}
	if offline {
		if err := dir.checkOffline(log); err != nil {
			return id, err
		}
	}
	rsa, err := dir.rsaKey(fileRSA, generateRSA)
	if err != nil {
		return id, err
	}
	id.RSA, _ = cert.RSAKeyID(&rsa.PublicKey)
	id.Ed, _, err = dir.master()
	return id, err
}
