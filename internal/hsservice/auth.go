package hsservice

import (
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// Client authorization (rend-spec-v3, CLIENT-AUTH-MGMT): the service has the
// public key of each client, in a file of its own.
const (
	authPrefix = "descriptor:x25519:"
	extAuth    = ".auth"

	// ExtAuthPrivate ends the names of files with a client's half, as its programs look for them.
	ExtAuthPrivate = ".auth_private"

	// MaxClients is how many clients a service may authorize: the descriptor, which
	// has a bound, names each.
	MaxClients = 256
)

// ParseClient reads a client's public key as it stands in a file NAME.auth.
func ParseClient(text string) (ident.X25519Key, error) {
	var key ident.X25519Key
	body, ok := strings.CutPrefix(strings.TrimSpace(text), authPrefix)
	b, err := base32NoPad.DecodeString(strings.ToUpper(body))
	if !ok || err != nil || len(b) != len(key) {
		return key, fault.New(fault.Config, "authorized client: it is not %q and a key in base32", authPrefix)
	}
	copy(key[:], b)
	if hscrypto.SmallOrder(key) {
		return ident.X25519Key{}, fault.New(fault.Config, "authorized client: the key cannot be one of X25519")
	}
	return key, nil
}

// FormatClient writes what ParseClient reads.
func FormatClient(key ident.X25519Key) string { return authPrefix + base32NoPad.EncodeToString(key[:]) }

// ReadClients reads the authorized clients of a service's directory; none means
// that everybody who knows the address may connect. A file that cannot be read is an
// error, and so are files of which none has the right ending: a service must not be
// public because of a mistyped key or name.
func ReadClients(dir string) ([]ident.X25519Key, error) {
	entries, err := os.ReadDir(filepath.Join(dir, dirClients))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Config, "authorized clients: %w", err)
	}
	var keys []ident.X25519Key
	var other string
	for _, e := range entries {
		if filepath.Ext(e.Name()) != extAuth {
			if e.Name()[0] != '.' {
				other = e.Name()
			}
			continue
		}
		path := filepath.Join(dir, dirClients, e.Name())
		key, err := readClient(path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if keys == nil && other != "" {
		return nil, fault.New(fault.Config, "authorized clients: %s has %s, but no name ends in %s: everybody could connect. Rename it, or remove it", filepath.Join(dir, dirClients), other, extAuth)
	}
	return keys, checkClients(keys)
}

// readClient reads the one line of a file NAME.auth. An error names the file and the line.
func readClient(path string) (key ident.X25519Key, err error) {
	b, err := readFile(path)
	if err != nil {
		return key, err
	}
	text, at := "", 1
	for i, line := range strings.Split(string(b), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case text != "":
			return key, fault.New(fault.Config, "%s:%d: a second line: each client has a file of its own", path, i+1)
		default:
			text, at = line, i+1
		}
	}
	if key, err = ParseClient(text); err != nil {
		return key, fault.New(fault.Config, "%s:%d: %w", path, at, err)
	}
	return key, nil
}

func checkClients(keys []ident.X25519Key) error {
	if len(keys) > MaxClients {
		return fault.New(fault.Config, "authorized clients: %d, more than %d", len(keys), MaxClients)
	}
	return nil
}

// NewClient makes the key pair of a client of the service at address: what the
// service keeps in a file NAME.auth, and what the client keeps in NAME.auth_private.
func NewClient(address string) (public, private string, err error) {
	id, err := hscrypto.ParseAddress(address)
	if err != nil {
		return "", "", err
	}
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fault.New(fault.Local, "make a client's key: %w", err)
	}
	host := strings.TrimSuffix(hscrypto.Address(id), ".onion")
	private = host + ":" + authPrefix + base32NoPad.EncodeToString(k.Bytes())
	return FormatClient(ident.X25519Key(k.PublicKey().Bytes())), private, nil
}
