package relay

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// notSentLowat bounds what the kernel holds of a link that it has not sent
// yet: cells that wait there are out of the scheduler's hands, and an
// interactive circuit's would wait behind them. Two records keep the wire busy.
const notSentLowat = 2 * 16384

// tuneLink sets the options of a link's socket. They are hints: without them a
// link works, and is slower.
func tuneLink(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSentLowat)
	})
}

// fdLimit raises the soft limit of file descriptors to the hard one and returns
// it.
func fdLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	if l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			l = raised
		}
	}
	return l.Cur
}
