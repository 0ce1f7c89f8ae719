package channel

import (
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// quickACK returns a function that makes the kernel acknowledge at once what
// comes next on conn, until something is sent. C tor leaves Nagle's algorithm
// on: its answer to VERSIONS waits until what it sent before is acknowledged,
// which the kernel else delays by 40 ms in the hope of data to go with it. On
// what is not TCP the function does nothing.
func quickACK(conn net.Conn) func() {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	return func() {
		// A hint: without it the same bytes come, later.
		_ = raw.Control(func(fd uintptr) {
			_ = nonblock.QuickACK(fd)
		})
	}
}
