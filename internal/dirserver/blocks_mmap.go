//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package dirserver

import (
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// mapChunk gets memory from the system.
func mapChunk(n int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fault.New(fault.Resource, "get %d bytes from the system: %w", n, err)
	}
	return b, nil
}

// unmapChunk gives it back.
func unmapChunk(b []byte) {
	if err := syscall.Munmap(b); err != nil {
		panic(err) // the memory is not ours
	}
}
