//go:build unix

package hsservice

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// clientLock is a lock on a service's directory itself: it needs no file, which root would have to make in another user's directory.
type clientLock struct{ dir *os.File }

func openLock(dir string) (*clientLock, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &clientLock{f}, nil
}

// try locks, unless another command has the lock. In a file system that cannot lock directories, such as NFS, no lock is possible, and none is taken.
func (l *clientLock) try() (held bool, err error) {
	err = unix.Flock(int(l.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return false, nil
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL):
		return true, nil
	}
	return err == nil, err
}

func (l *clientLock) close() { l.dir.Close() }
