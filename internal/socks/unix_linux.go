package socks

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// private opens sockets that other users never reach: the file that bind makes has the mode of
// the socket, less the umask.
var private = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = os.NewSyscallError("fchmod", unix.Fchmod(int(fd), 0o600)) }); e != nil {
		return e
	}
	return err
}}

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
