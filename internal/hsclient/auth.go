package hsclient

import (
	"crypto/ecdh"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// Keys are the keys by which services know this client, by the services'
// identities.
type Keys map[ident.Ed25519ID]*ecdh.PrivateKey

// authSuffix is the end of the names of files with a key, as in tor(1),
// ClientOnionAuthDir.
const authSuffix = ".auth_private"

// maxAuthFile is the length of the longest file that is read, in bytes.
const maxAuthFile = 4 << 10

// Add reads one key in the form of ParseKey.
func (k Keys) Add(line string) error {
	key, err := ParseKey(line)
	if err != nil {
		return err
	}
	return k.add(key.id, key.secret)
}

func (k Keys) add(id ident.Ed25519ID, key *ecdh.PrivateKey) error {
	if k[id] != nil && !k[id].Equal(key) {
		return fault.New(fault.Config, "onion service authorization: two keys for one service")
	}
	k[id] = key
	return nil
}

// Join returns the keys of both. It is an error if they have two keys for one service.
func (k Keys) Join(more Keys) (Keys, error) {
	out := Keys{}
	maps.Copy(out, k)
	for id, key := range more {
		if err := out.add(id, key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// With returns the keys with another one, which takes the place of an older one.
func (k Keys) With(key *Key) Keys {
	out := Keys{}
	maps.Copy(out, k)
	out[key.id] = key.secret
	return out
}

// Without returns the keys without that of the service at an address, for which there must be one.
func (k Keys) Without(address string) (Keys, error) {
	id, err := hscrypto.ReadAddress(address)
	if err != nil {
		return nil, fault.New(fault.Config, "onion service authorization: %w", err)
	}
	if k[id] == nil {
		return nil, fault.New(fault.Config, "onion service authorization: no key was added for the service")
	}
	out := maps.Clone(k)
	delete(out, id)
	return out, nil
}

// changed returns the services of which two sets do not have the same keys.
func (k Keys) changed(next Keys) (out []ident.Ed25519ID) {
	for id, key := range k {
		if now := next[id]; now == nil || !now.Equal(key) {
			out = append(out, id)
		}
	}
	for id := range next {
		if k[id] == nil {
			out = append(out, id)
		}
	}
	return out
}

// AddFile reads one key from a file to which only its owner has access.
func (k Keys) AddFile(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fault.Wrap(fault.Config, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Config, "others have access to %s: chmod 600", name)
	}
	return fault.Wrap(fault.Config, k.addFile(name))
}

// AddDir reads the files in dir whose names end in ".auth_private". Nobody but the
// owner may have access to dir.
func (k Keys) AddDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fault.Wrap(fault.Config, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Config, "others have access to %s: chmod 700", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Wrap(fault.Config, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), authSuffix) {
			continue
		}
		if err := k.addFile(filepath.Join(dir, e.Name())); err != nil {
			return fault.New(fault.Config, "%s: %w", e.Name(), err)
		}
	}
	return nil
}

func (k Keys) addFile(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxAuthFile {
		return fault.New(fault.Config, "this is no file of at most %d bytes", maxAuthFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return k.Add(string(b))
}
