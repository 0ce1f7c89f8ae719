package deploy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/fault"
)

// LinksName is the file in which the emulator of links tells how late it was.
const LinksName = "links.json"

// Names of directories of runs, in the directory for temporary files.
const (
	homePrefix = "chivelab-deploy-"
	lockName   = "lock"
)

// home is the directory of a run here. Its lock is held while the run goes on: the kernel ends that with the process,
// however it ends.
type home struct {
	dir  string
	lock *flock.Flock
}

func newHome() (*home, error) {
	dir, err := os.MkdirTemp("", homePrefix)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	h := &home{dir, flock.New(filepath.Join(dir, lockName))}
	if ok, err := h.lock.TryLock(); err != nil || !ok {
		return nil, fault.New(fault.Local, "lock %s: %w", dir, errors.Join(err, os.RemoveAll(dir)))
	}
	return h, nil
}

func (h *home) remove() error {
	return fault.Wrap(fault.Local, errors.Join(os.RemoveAll(h.dir), h.lock.Close()))
}

// Clean removes the directories that runs here have left, which were killed, and returns them. Their processes, devices
// and namespaces ended with them. A directory whose run goes on stays.
func Clean() (removed []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*"))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	for _, dir := range dirs {
		lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDWR))
		ok, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist): // killed before the lock was there, or not ours
			continue
		case err != nil:
			return removed, fault.New(fault.Local, "%s: %w", dir, err)
		case !ok:
			continue
		}
		err = errors.Join(os.RemoveAll(dir), lock.Close())
		if err != nil {
			return removed, fault.Wrap(fault.Local, err)
		}
		removed = append(removed, dir)
	}
	return removed, nil
}
