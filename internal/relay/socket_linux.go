package relay

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// notSentLowat bounds the unsent bytes of a link in the kernel, in bytes: the
// scheduler has no control over cells that wait there, and the cells of an
// interactive circuit would wait behind them. Two records keep the wire busy.
const notSentLowat = 2 * 16384

// tuneLink sets the options of a link's socket, if it has one. Errors do not matter:
// without these options a link works, but cells of interactive circuits wait longer. Linux has had
// it since 3.12. The simulator Shadow has not, and nothing takes its place there: to ask for the length of the queue
// (SIOCOUTQNSD) does not tell when it is short again, so that each busy link would need a timer.
func tuneLink(conn net.Conn) {
	raw, err := socketOf(conn)
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
