package idle

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
)

// alone is the file descriptor of a socket that net does not know.
type alone int32

const none alone = -1

// fromNet returns another file descriptor of a socket. The caller then closes that of
// net, which closes no connection.
func fromNet(raw syscall.RawConn) (alone, error) {
	if raw == nil {
		return none, errNone
	}
	var fd int
	var derr error
	if err := raw.Control(func(of uintptr) { fd, derr = dup(int(of)) }); err != nil {
		return none, err
	}
	return alone(fd), derr
}

func dup(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fault.New(fault.Local, "duplicate a socket: %w", err)
	}
	return n, nil
}

// toNet returns a connection of net's with the same socket. The caller then closes a.
func (a alone) toNet() (net.Conn, error) {
	fd, err := dup(int(a))
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	alive := keepAlive(fd)
	conn, err := net.FileConn(f)
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(alive) // an error says that the other end has closed it
	}
	return conn, err
}

// keepAlive returns a TCP socket's settings of that name: net.FileConn replaces them.
func keepAlive(fd int) net.KeepAliveConfig {
	get := func(level, name int) int {
		n, _ := unix.GetsockoptInt(fd, level, name) // no TCP socket has no settings
		return n
	}
	return net.KeepAliveConfig{
		Enable:   get(unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0,
		Idle:     time.Duration(get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)) * time.Second,
		Interval: time.Duration(get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)) * time.Second,
		Count:    get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
	}
}

func (a alone) closeWrite() error { return syscall.Shutdown(int(a), syscall.SHUT_WR) }

// noLinger has close send a reset, if it is a TCP socket.
func (a alone) noLinger() {
	// An error says that the other end has closed it.
	_ = syscall.SetsockoptLinger(int(a), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}

func (a alone) close() { _ = syscall.Close(int(a)) } // an error says nothing: it is closed
