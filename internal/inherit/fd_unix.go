//go:build unix

package inherit

import (
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
)

// take makes h the socket of a descriptor, which it closes. A descriptor that is no socket stays as it is:
// it may be the runtime's.
func (h *handed) take(fd int) (err error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fault.New(fault.Config, "%s is no socket: %w", h.name, err)
	}
	f := os.NewFile(uintptr(fd), h.name)
	defer f.Close()
	switch kind {
	case unix.SOCK_STREAM:
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
			return fault.New(fault.Config, "%s is a connection, and no socket that accepts them: the socket's unit must say Accept=no", h.name)
		}
		var l net.Listener
		if l, err = net.FileListener(f); err == nil {
			h.conn, h.at = l.(socket), l.Addr()
		}
	case unix.SOCK_DGRAM:
		var c net.PacketConn
		if c, err = net.FilePacketConn(f); err == nil {
			h.conn, h.at = c.(socket), c.LocalAddr()
		}
	default:
		return fault.New(fault.Config, "%s is a socket of another kind than ports have", h.name)
	}
	if err != nil {
		return fault.New(fault.Config, "%s cannot be used: %w", h.name, err)
	}
	return nil
}

// duplicate returns a second descriptor of a socket that is open.
func duplicate(c syscall.Conn) (fd int, open bool, err error) {
	raw, err := c.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(of uintptr) { fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, firstFD) })
		if failed != nil {
			return 0, false, os.NewSyscallError("fcntl", failed)
		}
	}
	return fd, err == nil, nil // the error says that it is closed
}

func closeFD(fd int) { unix.Close(fd) }

// deaf are the signals that a program ignores until it listens to them. What a program listens to ends its successor otherwise,
// as long as that is starting, and so all ports. This program needs them no more: it ends if it cannot start the other one.
var deaf = []os.Signal{syscall.SIGHUP, syscall.SIGUSR2}

func (k *Kept) exec(path string, args, env []string) error {
	signal.Ignore(deaf...)
	syscall.ForkLock.RLock() // no program that is started meanwhile gets the ports
	defer syscall.ForkLock.RUnlock()
	for _, p := range k.ports {
		if _, err := unix.FcntlInt(uintptr(p.FD), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return syscall.Exec(path, args, env)
}
