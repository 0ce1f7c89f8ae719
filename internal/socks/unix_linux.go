package socks

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shortUnix returns a path to the same file that fits into a socket's address,
// and is good until release is called: by way of its directory's descriptor,
// if it is too long.
func shortUnix(path string) (short string, release func(), err error) {
	if len(path) <= maxUnixPath {
		return path, func() {}, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
