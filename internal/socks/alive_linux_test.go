package socks

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// alive reports whether a connection sends keep-alive probes.
func alive(t *testing.T, c net.Conn) bool {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var on int
	if cerr := raw.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return on != 0
}
