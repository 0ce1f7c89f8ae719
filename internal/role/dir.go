package role

import (
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/fault"
)

// Dir is a data directory that no other node uses.
type Dir struct{ lock *flock.Flock }

// OpenDir makes the data directory, for its owner only, and locks it until Close.
// The error is of kind fault.Config if another node uses the directory, and of
// fault.Local if it cannot be made or locked.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fault.New(fault.Local, "data directory: %w", err)
	}
	d := &Dir{flock.New(filepath.Join(path, "lock"))}
	ok, err := d.lock.TryLock()
	if err != nil {
		return nil, fault.New(fault.Local, "lock the data directory %s: %w", path, err)
	}
	if !ok {
		return nil, fault.New(fault.Config, "the data directory %s is in use: end the client, relay or authority that uses it, or give this one another directory", path)
	}
	return d, nil
}

// Close lets other nodes use the directory. A nil Dir does nothing.
func (d *Dir) Close() error {
	if d == nil {
		return nil
	}
	return fault.Wrap(fault.Local, d.lock.Unlock())
}
