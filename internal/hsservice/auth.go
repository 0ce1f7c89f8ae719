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

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// Client authorization (rend-spec-v3, CLIENT-AUTH-MGMT): the service has the
// public key of each client, in a file of its own.
const (
	authPrefix     = "descriptor:x25519:"
	extAuth        = ".auth"
	extAuthPrivate = ".auth_private"

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
		b, err := readFile(path)
		if err != nil {
			return nil, err
		}
		key, err := ParseClient(string(b))
		if err != nil {
			return nil, fault.New(fault.Config, "%s: %w", path, err)
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

// AddClient makes a client's key pair and writes both files: one into the service's
// directory, one as folder/NAME.auth_private. It replaces no file.
func AddClient(dir, name, folder string) (public, private string, err error) {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || name[0] == '.' {
		return "", "", fault.New(fault.Config, "client's name %q: it must be good as a file's name", name)
	}
	k, err := ReadKey(dir)
	if err != nil {
		return "", "", err
	}
	public = filepath.Join(dir, dirClients, name+extAuth)
	private = filepath.Join(folder, name+extAuthPrivate)
	for _, path := range []string{public, private} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return "", "", fault.New(fault.Config, "%s is there already; no file is replaced", path)
		}
	}
	pub, priv, err := NewClient(k.Address())
	if err != nil {
		return "", "", err
	}
	for _, d := range []string{filepath.Dir(public), folder} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", "", fault.New(fault.Local, "client authorization: %w", err)
		}
	}
	// The client's half first: a service that knows a key which nobody has is closed.
	if err := atomicfile.Write(private, []byte(priv+"\n"), 0o600); err != nil {
		return "", "", err
	}
	return public, private, atomicfile.Write(public, []byte(pub+"\n"), 0o600)
}
