//go:build linux && (race || !(amd64 || arm64 || arm || riscv64))

package nonblock

import "syscall"

// QuickACK makes the kernel acknowledge the next bytes that a TCP socket receives
// at once.
func QuickACK(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
}
