//go:build linux && !race && (amd64 || arm64 || arm || riscv64)

package nonblock

import (
	"syscall"
	"unsafe"
)

// QuickACK makes the kernel acknowledge the next bytes that a TCP socket receives
// at once.
func QuickACK(fd uintptr) error {
	on := int32(1)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_SETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_QUICKACK,
		uintptr(unsafe.Pointer(&on)), unsafe.Sizeof(on), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
