//go:build linux && (race || !(amd64 || arm64 || arm || riscv64))

package nonblock

import "syscall"

// QuickACK has the kernel acknowledge at once what a TCP socket receives next.
func QuickACK(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
}
