package relay

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
)

// The files of a relay's keys, in the directory of Config.keyDir: names and
// formats are C tor's, so that an operator can move between the two.
const (
	fileRSA          = "secret_id_key"
	fileMaster       = "ed25519_master_id_secret_key"
	fileMasterPublic = "ed25519_master_id_public_key"
	fileSigning      = "ed25519_signing_secret_key"
	fileSigningCert  = "ed25519_signing_cert"
	fileTAP          = "secret_onion_key"
	fileOnion        = "secret_onion_key_ntor"
	fileOnionOld     = "secret_onion_key_ntor.old"
)

// The headers of C tor's tagged files.
const (
	tagMaster       = "ed25519v1-secret: type0"
	tagMasterPublic = "ed25519v1-public: type0"
	tagSigning      = "ed25519v1-secret: type4"
	tagSigningCert  = "ed25519v1-cert: type4"
	tagOnion        = "c25519v1: onion"
)

// keyDir reads and writes the files of one relay's keys.
type keyDir string

func keyDirOf(dataDir string) keyDir { return keyDir(filepath.Join(dataDir, "keys")) }

// keyDir returns where the relay's keys are.
func (c *Config) keyDir() keyDir {
	if c.KeyDir != "" {
		return keyDir(c.KeyDir)
	}
	return keyDirOf(c.DataDir)
}

// make makes the directory for its owner only, and removes what a crash left.
func (d keyDir) make() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fault.New(fault.Local, "keys: %w", err)
	}
	if err := atomicfile.Sweep(string(d)); err != nil {
		return fault.New(fault.Local, "keys: %w", err)
	}
	return nil
}

func (d keyDir) path(name string) string { return filepath.Join(string(d), name) }

// read returns a file's contents; nil when there is none.
func (d keyDir) read(name string) ([]byte, error) {
	b, err := os.ReadFile(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Local, "keys: %w", err)
	}
	return b, nil
}

func (d keyDir) write(name string, b []byte) error {
	if err := atomicfile.Write(d.path(name), b, atomicfile.Secret); err != nil {
		return fault.New(fault.Local, "keys: %w", err)
	}
	return nil
}

const tagLen = 32

// readTagged returns the contents after the tag; nil if there is no such file.
func (d keyDir) readTagged(name, tag string, sizes ...int) ([]byte, error) {
	b, err := d.read(name)
	if b == nil || err != nil {
		return nil, err
	}
	head := make([]byte, tagLen)
	copy(head, "== "+tag+" ==")
	if len(b) < tagLen || !bytes.Equal(b[:tagLen], head) {
		return nil, fault.New(fault.Config, "keys: %s is not a file of the kind %q (an encrypted key must be decrypted first)", d.path(name), tag)
	}
	b = b[tagLen:]
	for _, n := range sizes {
		if len(b) == n {
			return b, nil
		}
	}
	if len(sizes) == 0 {
		return b, nil
	}
	return nil, fault.New(fault.Config, "keys: %s holds %d bytes, not %v: it is damaged", d.path(name), len(b), sizes)
}

func (d keyDir) writeTagged(name, tag string, body []byte) error {
	b := make([]byte, tagLen, tagLen+len(body))
	copy(b, "== "+tag+" ==")
	return d.write(name, append(b, body...))
}

// rsaKey reads an RSA key, or makes one.
func (d keyDir) rsaKey(name string, generate func(bits int) (*rsa.PrivateKey, error)) (*rsa.PrivateKey, error) {
	b, err := d.read(name)
	if err != nil {
		return nil, err
	}
	if b == nil {
		k, err := generate(cert.RSAIdentityBits)
		if err != nil {
			return nil, fault.New(fault.Local, "make an RSA key: %w", err)
		}
		return k, d.write(name, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "RSA PRIVATE KEY" {
		return nil, fault.New(fault.Config, "keys: %s is not a PEM file with an RSA PRIVATE KEY", d.path(name))
	}
	k, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || k.N.BitLen() != cert.RSAIdentityBits {
		return nil, fault.New(fault.Config, "keys: %s does not hold an RSA key of %d bits", d.path(name), cert.RSAIdentityBits)
	}
	return k, nil
}

// master returns the Ed25519 master identity, and makes one if there is none. The
// secret half is nil if it is kept elsewhere.
func (d keyDir) master() (ident.Ed25519ID, *cert.ExpandedKey, error) {
	var pub ident.Ed25519ID
	p, err := d.readTagged(fileMasterPublic, tagMasterPublic, len(pub))
	if err != nil {
		return pub, nil, err
	}
	b, err := d.readTagged(fileMaster, tagMaster, cert.ExpandedLen)
	if err != nil {
		return pub, nil, err
	}
	switch {
	case b == nil && p != nil:
		return ident.Ed25519ID(p), nil, nil
	case b == nil:
		k, err := cert.GenerateExpanded(rand.Reader)
		if err != nil {
			return pub, nil, err
		}
		if err := d.writeTagged(fileMaster, tagMaster, k.Bytes()); err != nil {
			return pub, nil, err
		}
		return k.Public(), k, d.writePublic(k)
	}
	k, err := cert.NewExpanded(b)
	if err != nil {
		return pub, nil, err
	}
	if p == nil {
		return k.Public(), k, d.writePublic(k)
	}
	if k.Public() != ident.Ed25519ID(p) {
		return pub, nil, fault.New(fault.Config, "keys: %s is not the public half of %s", fileMasterPublic, fileMaster)
	}
	return k.Public(), k, nil
}

// checkOffline returns an error if files are missing that a relay with an offline
// master key needs, and warns if the master key is here nevertheless.
func (d keyDir) checkOffline(log *slog.Logger) error {
	for _, name := range []string{fileMasterPublic, fileSigning, fileSigningCert, fileRSA} {
		if _, err := os.Stat(d.path(name)); err != nil {
			return fault.New(fault.Config, "keys: the master key is said to be offline, and %s is not here: make the relay's keys with \"chive keys relay\" where you keep the master key, and copy all files except %s", d.path(name), fileMaster)
		}
	}
	if _, err := os.Stat(d.path(fileMaster)); err == nil {
		log.Warn("the master key is said to be offline, and is here: it is not used; move it away", "file", d.path(fileMaster))
	}
	return nil
}

func (d keyDir) writePublic(k *cert.ExpandedKey) error {
	pub := k.Public()
	return d.writeTagged(fileMasterPublic, tagMasterPublic, pub[:])
}

// onion reads an onion key; nil if there is no such file. A key that is not clamped, as
// Chive wrote them before 0.1.0, is written again as C tor wants it, and keeps its age.
func (d keyDir) onion(name string) (*handshake.NtorKeyPair, error) {
	b, err := d.readTagged(name, tagOnion, 64)
	if b == nil || err != nil {
		return nil, err
	}
	k, err := handshake.NtorKeyPairFromSecret(b[:32])
	if err != nil {
		return nil, err
	}
	if pub := k.Public(); !bytes.Equal(pub[:], b[32:]) {
		return nil, fault.New(fault.Config, "keys: %s is damaged: its halves do not belong together", d.path(name))
	}
	if sec := k.Secret(); !bytes.Equal(sec[:], b[:32]) {
		return k, d.rewriteOnion(name, k)
	}
	return k, nil
}

// rewriteOnion replaces the file of an onion key and keeps its time, from which the next rotation counts.
func (d keyDir) rewriteOnion(name string, k *handshake.NtorKeyPair) error {
	st, err := os.Stat(d.path(name))
	if err != nil {
		return fault.New(fault.Local, "keys: %w", err)
	}
	if err := d.writeOnion(name, k); err != nil {
		return err
	}
	if err := os.Chtimes(d.path(name), st.ModTime(), st.ModTime()); err != nil {
		return fault.New(fault.Local, "keys: %w", err)
	}
	return nil
}

func (d keyDir) writeOnion(name string, k *handshake.NtorKeyPair) error {
	sec, pub := k.Secret(), k.Public()
	return d.writeTagged(name, tagOnion, append(sec[:], pub[:]...))
}
