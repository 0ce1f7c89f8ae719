package hsclient

import (
	"crypto/ecdh"
	"encoding/base32"
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

// Add reads one key in C tor's form: "ADDRESS:descriptor:x25519:KEY", with the
// address without ".onion" and the key in base32.
func (k Keys) Add(line string) error {
	f := strings.Split(strings.TrimSpace(line), ":")
	if len(f) != 4 || f[1] != "descriptor" || f[2] != "x25519" {
		return fault.New(fault.Config, "onion service authorization: the form is ADDRESS:descriptor:x25519:KEY")
	}
	id, err := hscrypto.ParseAddress(strings.TrimSuffix(f[0], ".onion") + ".onion")
	if err != nil {
		return fault.New(fault.Config, "onion service authorization: %w", err)
	}
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(f[3]))
	if err != nil || len(b) != 32 {
		return fault.New(fault.Config, "onion service authorization: the key is not 52 letters and digits of base32")
	}
	key, err := ecdh.X25519().NewPrivateKey(b)
	if err != nil {
		return fault.New(fault.Config, "onion service authorization: %w", err)
	}
	if k[id] != nil && !k[id].Equal(key) {
		return fault.New(fault.Config, "onion service authorization: two keys for one service")
	}
	k[id] = key
	return nil
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
