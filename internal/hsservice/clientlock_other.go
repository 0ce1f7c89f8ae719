//go:build !unix

package hsservice

import (
	"path/filepath"

	"github.com/gofrs/flock"
)

// clientLock is a lock on a file, since directories have none.
type clientLock struct{ file *flock.Flock }

func openLock(dir string) (*clientLock, error) {
	return &clientLock{flock.New(filepath.Join(dir, "clients.lock"))}, nil
}

func (l *clientLock) try() (held bool, err error) { return l.file.TryLock() }

func (l *clientLock) close() { _ = l.file.Unlock() } // the end of the command ends it, too
