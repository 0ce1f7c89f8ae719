package hsservice

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// The files of a service's directory are C tor's (tor(1), HiddenServiceDir), so
// that a service can move between the two programs.
const (
	fileSecret   = "hs_ed25519_secret_key"
	filePublic   = "hs_ed25519_public_key"
	fileHostname = "hostname"
	dirClients   = "authorized_clients"

	tagSecret = "== ed25519v1-secret: type0 =="
	tagPublic = "== ed25519v1-public: type0 =="
	tagLen    = 32 // filled with zeros

	// maxFile bounds a file that is read here, in bytes.
	maxFile = 4096
)

// Key is a service's identity: everybody who has it can be the service.
type Key struct{ secret *cert.ExpandedKey }

// NewKey makes a key.
func NewKey() (*Key, error) {
	k, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return nil, err
	}
	return &Key{k}, nil
}

// ParseKey reads the 64 bytes of an expanded Ed25519 secret key.
func ParseKey(b []byte) (*Key, error) {
	k, err := cert.NewExpanded(b)
	if err != nil {
		return nil, fault.New(fault.Config, "onion service's key: %w", err)
	}
	return &Key{k}, nil
}

// ID returns the public half.
func (k *Key) ID() ident.Ed25519ID { return k.secret.Public() }

// Address returns the onion address, with ".onion".
func (k *Key) Address() string { return hscrypto.Address(k.ID()) }

// Bytes returns a copy of the secret, for ParseKey.
func (k *Key) Bytes() []byte { return k.secret.Bytes() }

// ReadKey reads the key in a service's directory. It changes nothing.
func ReadKey(dir string) (*Key, error) {
	k, err := readSecret(dir)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, fault.New(fault.Config, "onion service's directory %s: it has no %s", dir, fileSecret)
	}
	return k, checkPublic(dir, k)
}

// OpenKey reads the key in a service's directory; if it has none, it makes one. It
// writes the files that are missing, each as a whole, for the owner's eyes alone.
func OpenKey(dir string) (*Key, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Local, "onion service's directory: %w", err)
	}
	if open := atomicfile.Exposed(dir, fileSecret); open != nil {
		return nil, fault.New(fault.Config, "onion service's directory: other users of this machine can access %s: the key is for its user alone (chmod go-rwx)", strings.Join(open, " and "))
	}
	k, err := readSecret(dir)
	if err != nil {
		return nil, err
	}
	if k == nil {
		// Without its key the service would silently get another address.
		for _, f := range []string{filePublic, fileHostname} {
			if _, err := os.Lstat(filepath.Join(dir, f)); err == nil {
				return nil, fault.New(fault.Config, "onion service's directory %s: %s is there, but %s is not: bring the key back, or remove the rest", dir, f, fileSecret)
			}
		}
		if k, err = NewKey(); err != nil {
			return nil, err
		}
		if err := atomicfile.Write(filepath.Join(dir, fileSecret), k.File(), 0o600); err != nil {
			return nil, err
		}
	}
	if err := checkPublic(dir, k); err != nil {
		return nil, err
	}
	id := k.ID()
	for f, text := range map[string][]byte{filePublic: tagged(tagPublic, id[:]), fileHostname: []byte(k.Address() + "\n")} {
		path := filepath.Join(dir, f)
		old, err := readFile(path)
		if err == nil && string(old) == string(text) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := atomicfile.Write(path, text, 0o600); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// readSecret returns nil if the file is missing.
func readSecret(dir string) (*Key, error) {
	path := filepath.Join(dir, fileSecret)
	b, err := readTagged(path, tagSecret, cert.ExpandedLen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseKey(b)
}

// File returns the secret as a service's directory has it.
func (k *Key) File() []byte { return tagged(tagSecret, k.Bytes()) }

// ParseKeyFile reads what File returns.
func ParseKeyFile(b []byte) (*Key, error) {
	body, ok := untagged(b, tagSecret, cert.ExpandedLen)
	if !ok {
		return nil, fault.New(fault.Config, "onion service's key: it is not the content of a file %s", fileSecret)
	}
	return ParseKey(body)
}

// checkPublic refuses a public key that is not the secret one's: one of the two
// files came from somewhere else, and the address would be a surprise.
func checkPublic(dir string, k *Key) error {
	b, err := readTagged(filepath.Join(dir, filePublic), tagPublic, len(ident.Ed25519ID{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if ident.Ed25519ID(b) != k.ID() {
		return fault.New(fault.Config, "onion service's directory %s: %s and %s are of different services", dir, fileSecret, filePublic)
	}
	return nil
}

func tagged(tag string, body []byte) []byte {
	head := make([]byte, tagLen, tagLen+len(body))
	copy(head, tag)
	return append(head, body...)
}

func readTagged(path, tag string, n int) ([]byte, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	body, ok := untagged(b, tag, n)
	if !ok {
		return nil, fault.New(fault.Config, "%s: it is not a file of %d bytes that begins with %q", path, tagLen+n, tag)
	}
	return body, nil
}

// untagged returns what tagged got.
func untagged(b []byte, tag string, n int) (body []byte, ok bool) {
	if len(b) != tagLen+n || string(b[:tagLen]) != string(tagged(tag, nil)) {
		return nil, false
	}
	return b[tagLen:], true
}

// readFile reads a small file. It never waits for one, since SIGHUP comes here, too.
func readFile(path string) ([]byte, error) {
	b, err := atomicfile.ReadRegular(path, maxFile)
	return b, fault.Wrap(fault.Config, err)
}

var base32NoPad = base32.StdEncoding.WithPadding(base32.NoPadding)
