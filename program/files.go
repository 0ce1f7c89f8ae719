package program

import (
	"io"
	"os"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/role"
)

// ErrInUse is in the error of a directory that another program uses.
var ErrInUse = role.ErrInUse

// LockDir makes a program's data directory, for its owner only, and locks it until Close: two programs
// with one directory would share keys. The error is of kind chive.ErrConfig, and is ErrInUse, if another
// program uses the directory, and of kind chive.ErrLocal if it cannot be made or locked.
//
// A client, relay or authority locks its own DataDir, which must be another one, such as a folder in
// this one.
func LockDir(path string) (io.Closer, error) {
	d, err := role.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// WriteFile replaces or creates the file at path as a whole, and waits until it is on the disk: after a
// crash or on a full disk it has its old content or its new one, never a part. Give keys, and what tells
// of the user, the mode 0600. A symbolic link stays, and its target is replaced; a device or a pipe is
// written to. Errors are of kind chive.ErrLocal.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	return atomicfile.Write(path, data, mode)
}

// ReadFile reads a whole file that the user has named, of no more than most bytes: it may be a pipe or a
// device, and reads no further, since these may have no end. An error names the file.
func ReadFile(path string, most int) ([]byte, error) { return atomicfile.Read(path, most) }

// ReadRegular is ReadFile for a regular file, perhaps through a link. It never waits: anything else, such
// as a pipe that nobody writes to, is an error. Use it for the program's own files, and for paths that
// another program has told.
func ReadRegular(path string, most int) ([]byte, error) { return atomicfile.ReadRegular(path, most) }
