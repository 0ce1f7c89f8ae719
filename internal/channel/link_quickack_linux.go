package channel

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// quickACK returns a function that makes the kernel acknowledge the next bytes
// on conn at once, until this end sends something. C tor uses Nagle's algorithm:
// its answer to VERSIONS waits until we acknowledge its earlier bytes, and the
// kernel delays that by up to 40 ms, because it hopes to send data with it. If
// conn is not TCP, the function does nothing.
func quickACK(conn net.Conn) func() {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	var unknown atomic.Bool // the system has no such option: simulators do not, and asking costs them much
	return func() {
		if unknown.Load() {
			return
		}
		// This is only a hint. Without it the same bytes arrive, but later.
		_ = raw.Control(func(fd uintptr) {
			if errors.Is(nonblock.QuickACK(fd), syscall.ENOPROTOOPT) {
				unknown.Store(true)
			}
		})
	}
}
