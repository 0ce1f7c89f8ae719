package stream

import (
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// sink is a socket for a stream's bytes. It is written to without waiting: bytes
// that the kernel does not take stay in the stream's buffer. So the channel's
// reader can pass on what it received, and needs no other goroutine unless the
// socket's owner is slow.
type sink struct {
	w     *nonblock.Writer
	total int64 // bytes written
	err   error // why the socket cannot be used any more
}

// newSink returns nil when w is not a socket.
func newSink(w any) *sink {
	raw := socket(w)
	if raw == nil {
		return nil
	}
	return &sink{w: nonblock.NewWriter(raw)}
}

// socket returns c's socket, or nil when it is not one of the kernel's: other
// types that hold one may do more in Read and Write than to read and write.
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
