package hsservice

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Client is a file of a service's folder of authorized clients.
type Client struct {
	Name string // of the file, without the ending
	Key  ident.X25519Key
	Err  error // why the file authorizes nobody, with its name and the line
}

// ListClients returns the files of a service's folder of authorized clients, in order. Hidden files with another ending
// are left out, as ReadClients does.
func ListClients(dir string) ([]Client, error) {
	entries, err := os.ReadDir(filepath.Join(dir, dirClients))
	if errors.Is(err, fs.ErrNotExist) {
		_, err := os.Stat(dir)
		return nil, fault.Wrap(fault.Config, err)
	}
	if err != nil {
		return nil, fault.New(fault.Config, "authorized clients: %w", err)
	}
	var out []Client
	for _, e := range entries {
		path := filepath.Join(dir, dirClients, e.Name())
		name, ok := strings.CutSuffix(e.Name(), extAuth)
		if !ok && name[0] == '.' {
			continue
		}
		c := Client{Name: name}
		if ok {
			c.Key, c.Err = readClient(path)
		} else {
			c.Err = fault.New(fault.Config, "%s: its name does not end in %s, so it authorizes nobody", path, extAuth)
		}
		out = append(out, c)
	}
	return out, nil
}

// clientFile returns the file of the client with a name.
func clientFile(dir, name string) (string, error) {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || name[0] == '.' || strings.ContainsFunc(name, unicode.IsControl) || strings.HasSuffix(name, extAuth) {
		return "", fault.New(fault.Config, "client's name %q: it must be good as a file's name, without the ending %s", name, extAuth)
	}
	return filepath.Join(dir, dirClients, name+extAuth), nil
}

// AddClient authorizes one more client of the service with its key in dir, and returns the file that says so. public is the client's
// key as in such a file, or in base32 alone. If it is empty, AddClient makes a key pair, and first calls give with the client's half: a
// service that knows a key which nobody has is closed, while a key that no service knows is only lost. AddClient replaces no
// file. If root calls it, the file is the one's who has dir, since that is who reads it.
func AddClient(dir, name, public string, give func(private string) error) (path string, err error) {
	if path, err = clientFile(dir, name); err != nil {
		return "", err
	}
	k, err := ReadKey(dir)
	if err != nil {
		return "", err
	}
	unlock, err := lockClients(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := absent(path); err != nil {
		return "", err
	}
	have, err := ListClients(dir)
	if err != nil {
		return "", err
	}
	if len(have) >= MaxClients {
		return "", fault.New(fault.Config, "authorized clients: there are %d already, and a descriptor has room for %d", len(have), MaxClients)
	}
	if public == "" {
		var private string
		if public, private, err = NewClient(k.Address()); err != nil {
			return "", err
		}
		if err := give(private); err != nil {
			return "", err
		}
	} else if public, err = checkedClient(public, have); err != nil {
		return "", err
	}
	return path, putClient(dir, path, public)
}

// checkedClient reads the public key that a client sent, and writes it as it stands in a file.
func checkedClient(public string, have []Client) (string, error) {
	if !strings.HasPrefix(public, authPrefix) {
		public = authPrefix + public
	}
	key, err := ParseClient(public)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(have, func(c Client) bool { return c.Err == nil && c.Key == key }); i >= 0 {
		return "", fault.New(fault.Config, "the client %s has this key already", have[i].Name)
	}
	return FormatClient(key), nil
}

func absent(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Config, "%s is there already; no file is replaced", path)
	}
	return nil
}

// putClient writes a file of the folder of authorized clients, which it makes if it is missing.
func putClient(dir, path, text string) error {
	d, err := openForeign(dir)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
		return d.put(filepath.Join(dirClients, filepath.Base(path)), text+"\n")
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Local, "client authorization: %w", err)
	}
	return atomicfile.Write(path, []byte(text+"\n"), 0o600)
}

// dropClient removes such a file.
func dropClient(dir, path string) error {
	d, err := openForeign(dir)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
		return fault.Wrap(fault.Local, d.Remove(filepath.Join(dirClients, filepath.Base(path))))
	}
	return fault.Wrap(fault.Local, os.Remove(path))
}

// SavePrivate returns a function for AddClient that writes the client's half to a file, which must not be there yet.
func SavePrivate(path string) func(private string) error {
	return func(private string) error {
		if err := absent(path); err != nil {
			return err
		}
		return atomicfile.Write(path, []byte(private+"\n"), 0o600)
	}
}

// RemoveClient shuts a client out from the next start or reload of the service on, and returns the file that it removed. Without
// any client everybody may connect: it removes the last one only if public is true.
func RemoveClient(dir, name string, public bool) (path string, err error) {
	if path, err = clientFile(dir, name); err != nil {
		return "", err
	}
	unlock, err := lockClients(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Lstat(path); err != nil {
		return "", fault.New(fault.Config, "there is no client %s of the service in %s: %w", name, dir, fault.Why(err))
	}
	have, err := ListClients(dir)
	if err != nil {
		return "", err
	}
	others := slices.ContainsFunc(have, func(c Client) bool { return c.Name != name && c.Err == nil })
	if !others && !public {
		return "", fault.New(fault.Config, "%s is the last client: without any, everybody who knows the address can connect; add another one first, or say --make-public", name)
	}
	return path, dropClient(dir, path)
}
