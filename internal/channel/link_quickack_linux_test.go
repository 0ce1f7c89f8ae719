package channel

import (
	"net"
	"syscall"
	"testing"
)

func TestQuickACK(t *testing.T) {
	a, _ := tcpPair(t)
	raw, err := a.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(set bool) (v int) {
		t.Helper()
		if err := raw.Control(func(fd uintptr) {
			if set {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 0)
			} else {
				v, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if option(true); option(false) != 0 {
		t.Fatal("the option cannot be cleared")
	}
	if quickACK(a)(); option(false) != 1 {
		t.Error("the kernel still delays")
	}
	p, _ := net.Pipe()
	quickACK(p)()
}
