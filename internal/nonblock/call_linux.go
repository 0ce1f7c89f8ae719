//go:build linux && !race

package nonblock

import (
	"syscall"
	"unsafe"
)

// Available says whether this system supports calls that never wait.
const Available = true

func read(fd uintptr, p []byte) (int, error)  { return call(syscall.SYS_READ, fd, p) }
func write(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

func call(number, fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
