package stream

import (
	"io"
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/nonblock"
)

// sink is what a stream's bytes are written to. A socket is written to without waiting:
// bytes that the kernel does not take stay in the stream's buffer. So the channel's
// reader can pass on what it received, and needs no other goroutine unless the
// socket's owner is slow. The stream's sinkMu guards it.
type sink struct {
	to    io.Writer
	w     nonblock.Writer // not valid if to is no socket
	total int64           // bytes written
	err   error           // why the socket cannot be used any more
}

func newSink(to io.Writer) sink {
	k := sink{to: to}
	if raw := socket(to); raw != nil {
		k.w = nonblock.NewWriter(raw)
	}
	return k
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

// write writes what the socket takes at once.
func (k *sink) write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	k.total += int64(n)
	k.err = err
	return n, err
}

// wait writes all of p.
func (k *sink) wait(p []byte) (int, error) {
	n, err := k.to.Write(p)
	k.total += int64(n)
	return n, err
}
