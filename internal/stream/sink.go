package stream

import (
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// sink is a socket that a stream's bytes go to, written to without waiting:
// what the kernel does not take stays in the stream's buffer. So the channel's
// reader can pass on what it received, and needs no other goroutine unless the
// socket's owner is slow.
type sink struct {
	w     *nonblock.Writer
	total int64 // bytes written
	err   error // the socket is of no use any more
}

// newSink returns nil when w is no socket.
func newSink(w any) *sink {
	raw := socket(w)
	if raw == nil {
		return nil
	}
	return &sink{w: nonblock.NewWriter(raw)}
}

// socket returns c's socket, or nil when it is not one of the kernel's: types
// of others that hold one may do more in Read and Write than to read and write.
func socket(c any) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil || !nonblock.Available {
		return nil
	}
	return raw
}

func (k *sink) write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	k.total += int64(n)
	k.err = err
	return n, err
}
