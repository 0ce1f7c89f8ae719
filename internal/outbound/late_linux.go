package outbound

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Late is the Control of a net.Dialer with a source address: the kernel chooses the port when it
// connects, and not when it binds the address. So two connections to different targets may have
// the same port, and an exit has more of them than the some 28,000 ports of its address.
func Late(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// A kernel before 4.2 does not know it: then there are fewer ports, as without Late.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}
