package role

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/fault"
)

// Dir is a directory that no other node uses.
type Dir struct{ lock *flock.Flock }

// ErrInUse is in the error of a directory that another node uses.
var ErrInUse = errors.New("in use")

// OpenDir makes the data directory, for its owner only, and locks it until Close.
// The error is of kind fault.Config if another node uses the directory, and of
// fault.Local if it cannot be made or locked.
func OpenDir(path string) (*Dir, error) {
	return open(path, "data directory", "end the client, relay or authority that uses it, or give this one another directory")
}

// OpenServiceDir is OpenDir for the directory of an onion service's key: two programs
// that host one service take its clients from each other. In a file system that cannot be
// written to, no lock is possible, and none is taken.
func OpenServiceDir(path string) (*Dir, error) {
	d, err := open(path, "onion service's directory", "another program hosts this service, or this program does already; only one may at a time")
	if errors.Is(err, syscall.EROFS) {
		return new(Dir), nil
	}
	return d, err
}

// OpenKeyDir is OpenDir for a directory of a relay's keys that is not in its data directory:
// two relays with one key would take each other's clients.
func OpenKeyDir(path string) (*Dir, error) {
	return open(path, "key directory", "end the relay that uses it, or give this one another directory")
}

func open(path, what, advice string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		if !strings.Contains(err.Error(), path) { // it names one above
			what += " " + path
		}
		return nil, fault.New(fault.Local, "%s: %w", what, err)
	}
	d := &Dir{flock.New(filepath.Join(path, "lock"))}
	ok, err := d.lock.TryLock()
	if err != nil {
		return nil, fault.New(fault.Local, "lock the %s %s: %w", what, path, err)
	}
	if !ok {
		return nil, fault.New(fault.Config, "the %s %s is %w: %s", what, path, ErrInUse, advice)
	}
	return d, nil
}

// Close lets other nodes use the directory. A nil Dir does nothing.
func (d *Dir) Close() error {
	if d == nil || d.lock == nil {
		return nil
	}
	return fault.Wrap(fault.Local, d.lock.Unlock())
}
