package socks

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// gone waits until the program has gone, and then returns true; or until the connection's read
// deadline is over. An end of what the program writes is no sign by itself: it may have sent
// everything, and wait for the answer. So the first byte of the reply is sent then, and a
// program that is not there any more is told by the reset that comes back. (One that ends its
// side, reads that byte, and only then closes the connection sends nothing more. It has its
// place until the request's time is over, or until somebody else needs that.)
func (c *client) gone() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return c.goneReading()
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	for state := peerWrites; ; {
		now := state
		err := raw.Read(func(fd uintptr) bool {
			now = peerState(int32(fd))
			return now > state
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false
		case err != nil || now == peerGone:
			return true
		}
		state = now
		c.become(stateEnded)
		c.probe() // a write that fails makes the connection peerGone, too
	}
}

// What the other end of a connection can still do.
const (
	peerWrites = iota
	peerEnded  // it writes no more, and may read
	peerGone
)

func peerState(fd int32) int {
	fds := []unix.PollFd{{Fd: fd, Events: unix.POLLRDHUP}}
	for {
		_, err := unix.Poll(fds, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return peerGone
		}
	}
	switch got := fds[0].Revents; {
	case got&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
		return peerGone
	case got&unix.POLLRDHUP != 0:
		return peerEnded
	}
	return peerWrites
}
