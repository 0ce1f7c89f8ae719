package deploy

import (
	"context"
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

// keep lets the directory stay, for Clean.
func (h *home) keep() error { return fault.Wrap(fault.Local, h.lock.Close()) }

// Clean removes what this user's runs have left that were killed, and returns what that was: first what is on boards,
// then the directories here. Processes, devices and namespaces here ended with the run. What belongs to a run that goes on stays, and so does
// the directory of a run that has something on a board that cannot be reached.
func Clean(ctx context.Context) (removed []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), homePrefix+"*"))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var errs []error
	for _, dir := range dirs {
		if !ours(dir) { // anybody can write there, and what the directory says is believed
			continue
		}
		lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDWR))
		ok, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist): // killed before the lock was there, or not ours
			continue
		case err != nil:
			errs = append(errs, fault.New(fault.Local, "%s: %w", dir, err))
			continue
		case !ok:
			continue
		}
		there, err := cleanBoards(ctx, dir)
		removed = append(removed, there...)
		if err != nil {
			errs = append(errs, fault.New(fault.KindOf(err), "%s stays: %w", dir, errors.Join(err, lock.Close())))
			continue
		}
		if err := errors.Join(os.RemoveAll(dir), lock.Close()); err != nil {
			errs = append(errs, fault.Wrap(fault.Local, err))
			continue
		}
		removed = append(removed, dir)
	}
	return removed, errors.Join(errs...)
}
