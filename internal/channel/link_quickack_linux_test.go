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

// countedSocket counts how often somebody wants the socket below.
type countedSocket struct {
	*net.UDPConn
	times int
}

type countedRaw struct {
	syscall.RawConn
	of *countedSocket
}

func (a *countedSocket) SyscallConn() (syscall.RawConn, error) {
	raw, err := a.UDPConn.SyscallConn()
	return countedRaw{raw, a}, err
}

func (r countedRaw) Control(f func(uintptr)) error {
	r.of.times++
	return r.RawConn.Control(f)
}

// TestQuickACKUnknown: a system that does not know the option, as this one does not for UDP, is asked once.
func TestQuickACKUnknown(t *testing.T) {
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	a := &countedSocket{UDPConn: u}
	ask := quickACK(a)
	for range 3 {
		ask()
	}
	if a.times != 1 {
		t.Errorf("asked %d times", a.times)
	}
}
